#include "tests/support/redis_store.h"

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buffer.h"
#include "tests/test.h"

enum { KEYS_MAX = 32, CONNECTIONS_MAX = 16, QUEUE_MAX = 16384, WATCHED_MAX = 8 };
enum { ENDLESS_BYTES = 64 * 1024 };

/* A string has one value. A list or a stream has any number of values, the head first. */
struct key {
  char *name;
  char **values;
  size_t count;
  unsigned version; /* changes with each write */
};

struct connection {
  struct redis_store *store;
  int fd;
  struct event *readable;
  struct event *writable;
  redisReader *reader;
  struct buffer out;   /* replies, sent together, because a socket takes only a few small pieces */
  size_t sent;         /* the bytes of `out` that were sent */
  const char *endless; /* sent after the replies again and again; NULL: nothing */
  bool is_held;
  bool is_muted;
  redisReply *kept; /* the command at which the connection is held; NULL: none */
  char role[32];
  bool in_transaction;
  bool aborted;
  redisReply *queued[QUEUE_MAX];
  size_t queued_count;
  struct key *watched[WATCHED_MAX];
  unsigned versions[WATCHED_MAX];
  size_t watched_count;
  redisReply *blocked; /* a BLMOVE that waits */
  bool is_stray;       /* the connection is lost, and its BLMOVE still waits */
  struct event *block_limit;
};

struct redis_store {
  struct event_base *base;
  char directory[32];
  struct sockaddr_un path;
  struct redis_address at;
  int listener;
  struct event *incoming;
  struct connection *connections[CONNECTIONS_MAX];
  struct key keys[KEYS_MAX];
  const char *held;
  struct redis_store_fault fault; /* `skip` and `times` count down */
  int injected;
  struct buffer received, executed;
  unsigned long long last_id;
};

/* --- text ------------------------------------------------------------------------------------- */

/* Appends the text and a NUL, which is not counted in the length. */
static void append(struct buffer *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct buffer *text, const char *format, ...) {
  char *more;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&more, format, arguments);
  va_end(arguments);
  assert_true(length >= 0);
  buffer_add(text, more, (size_t)length + 1);
  text->length--;
  free(more);
}

static const char *word(const redisReply *command, size_t number) {
  assert_true(number < command->elements);
  const redisReply *element = command->element[number];
  return element != NULL ? element->str : "";
}

static bool is(const redisReply *command, const char *name) {
  return strcasecmp(word(command, 0), name) == 0;
}

static bool begins(const redisReply *command, const char *beginning) {
  struct buffer text = {0};
  size_t length = strlen(beginning);
  for (size_t i = 0; i < command->elements && text.length < length; i++)
    append(&text, "%s%s", i > 0 ? " " : "", word(command, i));
  bool same = length == 0 || (text.length > 0 && strncmp(text.bytes, beginning, length) == 0);
  buffer_release(&text);
  return same;
}

/* --- keys ------------------------------------------------------------------------------------- */

static struct key *find(struct redis_store *self, const char *name) {
  for (size_t i = 0; i < KEYS_MAX; i++) {
    struct key *key = &self->keys[i];
    if (key->name == NULL)
      key->name = strdup(name);
    if (strcmp(key->name, name) == 0)
      return key;
  }
  fail_msg("more than %d keys", KEYS_MAX);
  abort();
}

static void insert(struct key *key, size_t at, const char *value) {
  key->values = realloc(key->values, (key->count + 1) * sizeof *key->values);
  assert_non_null(key->values);
  memmove(key->values + at + 1, key->values + at, (key->count - at) * sizeof *key->values);
  key->values[at] = strdup(value);
  key->count++;
  key->version++;
}

static void erase(struct key *key, size_t at) {
  free(key->values[at]);
  key->count--;
  memmove(key->values + at, key->values + at + 1, (key->count - at) * sizeof *key->values);
  key->version++;
}

static void clear(struct key *key) {
  while (key->count > 0)
    erase(key, key->count - 1);
}

static void copy_values(struct key *to, const struct key *from) {
  for (size_t i = 0; i < from->count; i++)
    insert(to, i, from->values[i]);
}

static void release_keys(struct key *keys) {
  for (size_t i = 0; i < KEYS_MAX; i++) {
    clear(&keys[i]);
    free(keys[i].values);
    free(keys[i].name);
  }
}

/* A position as in LINDEX: negative ones count from the end. */
static bool locate(const struct key *key, const char *text, size_t *at) {
  long position = strtol(text, NULL, 10);
  if (position < 0)
    position += (long)key->count;
  *at = (size_t)position;
  return position >= 0 && *at < key->count;
}

/* --- commands: each appends its reply --------------------------------------------------------- */

static void answer_text(struct buffer *out, const char *value) {
  if (value == NULL)
    append(out, "$-1\r\n");
  else
    append(out, "$%zu\r\n%s\r\n", strlen(value), value);
}

static int remove_alike(struct key *key, long count, const char *value) {
  int removed = 0;
  long most = count < 0 ? -count : count;
  for (size_t i = 0; i < key->count && (most == 0 || removed < most);) {
    size_t at = count < 0 ? key->count - 1 - i : i;
    if (strcmp(key->values[at], value) != 0) {
      i++;
      continue;
    }
    erase(key, at);
    removed++;
  }
  return removed;
}

static bool read_list(struct key *key, const redisReply *command, struct buffer *out) {
  size_t at;
  if (is(command, "LINDEX")) {
    answer_text(out, locate(key, word(command, 2), &at) ? key->values[at] : NULL);
  } else if (is(command, "LLEN") || is(command, "XLEN")) {
    append(out, ":%zu\r\n", key->count);
  } else if (is(command, "LRANGE")) {
    size_t first, last = 0;
    bool is_there = locate(key, word(command, 3), &last);
    if (!locate(key, word(command, 2), &first))
      first = 0; /* before the head */
    size_t count = is_there ? last + 1 - first : 0;
    append(out, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
      answer_text(out, key->values[first + i]);
  } else if (is(command, "XREVRANGE")) {
    if (key->count == 0)
      append(out, "*0\r\n");
    else
      append(out, "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n$%zu\r\n%s\r\n",
             strlen(key->values[key->count - 1]), key->values[key->count - 1]);
  } else {
    return false;
  }
  return true;
}

static bool write_list(struct redis_store *self, struct key *key, const redisReply *command,
                       struct buffer *out) {
  if (is(command, "LPUSH")) {
    insert(key, 0, word(command, 2));
    append(out, ":%zu\r\n", key->count);
  } else if (is(command, "RPUSH")) {
    insert(key, key->count, word(command, 2));
    append(out, ":%zu\r\n", key->count);
  } else if (is(command, "LREM")) {
    append(out, ":%d\r\n", remove_alike(key, strtol(word(command, 2), NULL, 10), word(command, 3)));
  } else if (is(command, "XADD")) {
    insert(key, key->count, word(command, command->elements - 1));
    append(out, "$5\r\n%03llu-1\r\n", ++self->last_id % 1000);
  } else if (is(command, "LTRIM")) {
    assert_string_equal(word(command, 3), "-2"); /* removes the oldest */
    if (key->count > 0)
      erase(key, key->count - 1);
    append(out, "+OK\r\n");
  } else if (is(command, "XTRIM")) {
    size_t most = strtoul(word(command, 3), NULL, 10);
    append(out, ":%zu\r\n", key->count > most ? key->count - most : 0);
    while (key->count > most)
      erase(key, 0);
  } else {
    return false;
  }
  return true;
}

static bool do_string(struct key *key, const redisReply *command, struct buffer *out) {
  if (is(command, "GET")) {
    answer_text(out, key->count > 0 ? key->values[0] : NULL);
  } else if (is(command, "SET") && key->count == 0 &&
             strcmp(word(command, command->elements - 1), "XX") == 0) {
    append(out, "$-1\r\n");
  } else if (is(command, "SET")) {
    clear(key);
    insert(key, 0, word(command, 2));
    append(out, "+OK\r\n");
  } else if (is(command, "DEL")) {
    append(out, ":%d\r\n", key->count > 0);
    clear(key);
  } else if (is(command, "EXPIRE") || is(command, "PERSIST")) {
    append(out, ":%d\r\n", key->count > 0);
  } else if (is(command, "SISMEMBER")) {
    bool member = false;
    for (size_t i = 0; i < key->count; i++)
      member |= strcmp(key->values[i], word(command, 2)) == 0;
    append(out, ":%d\r\n", member);
  } else {
    return false;
  }
  return true;
}

/* Moves a value and appends it as the reply. Returns it, to be freed; NULL if the list is empty. */
static char *move_value(struct redis_store *self, const redisReply *command, struct buffer *out) {
  struct key *from = find(self, word(command, 1)), *to = find(self, word(command, 2));
  size_t at = strcmp(word(command, 3), "LEFT") == 0 ? 0 : from->count - 1;
  if (from->count == 0)
    return NULL;
  char *value = strdup(from->values[at]);
  erase(from, at);
  insert(to, strcmp(word(command, 4), "LEFT") == 0 ? 0 : to->count, value);
  answer_text(out, value);
  return value;
}

static void execute(struct redis_store *self, const redisReply *command, struct buffer *out) {
  if (is(command, "BLMOVE")) {
    free(move_value(self, command, out));
    return;
  }
  struct key *key = find(self, word(command, 1));
  if (!read_list(key, command, out) && !write_list(self, key, command, out) &&
      !do_string(key, command, out))
    fail_msg("the store does not know %s", word(command, 0));
}

static bool only_reads(const redisReply *command) {
  static const char *const names[] = {"GET",  "LINDEX",    "LRANGE",   "LLEN",
                                      "XLEN", "XREVRANGE", "SISMEMBER"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (is(command, names[i]))
      return true;
  return false;
}

static void write_down(struct connection *self, const redisReply *command) {
  if (only_reads(command))
    return;
  append(&self->store->executed, "%s", self->role);
  for (size_t i = 0; i < command->elements; i++)
    append(&self->store->executed, " %s", word(command, i));
  append(&self->store->executed, "\n");
}

/* --- connections ------------------------------------------------------------------------------ */

/* Sends as much as the socket takes now, and the rest later. */
static void send_answers(struct connection *self) {
  struct buffer *out = &self->out;
  if (self->is_muted)
    return;
  for (ssize_t n; self->sent < out->length; self->sent += (size_t)n)
    if ((n = send(self->fd, out->bytes + self->sent, out->length - self->sent, MSG_NOSIGNAL)) < 0) {
      assert_true(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
      if (errno != EAGAIN)
        break;
      event_add(self->writable, NULL);
      return;
    }
  out->length = self->sent = 0;
  while (self->endless != NULL && out->length < ENDLESS_BYTES)
    append(out, "%s", self->endless);
  if (out->length > 0)
    event_add(self->writable, NULL);
}

static void unblock(struct connection *self) {
  freeReplyObject(self->blocked);
  self->blocked = NULL;
  (void)evtimer_del(self->block_limit);
}

/* Returns true if the BLMOVE has moved a value or no longer waits. */
static bool try_move(struct connection *self, const redisReply *command) {
  char *value = move_value(self->store, command, &self->out);
  if (value == NULL)
    return false;
  append(&self->store->executed, "%s BLMOVE %s\n", self->role, value);
  send_answers(self);
  free(value);
  return true;
}

static void take_all(struct connection *self);

static void on_block_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct connection *self = context;
  unblock(self);
  append(&self->out, "*-1\r\n");
  take_all(self);
}

static void clear_queue(struct connection *self) {
  for (size_t i = 0; i < self->queued_count; i++)
    freeReplyObject(self->queued[i]);
  self->queued_count = self->watched_count = 0;
  self->in_transaction = self->aborted = false;
}

static bool watched_changed(const struct connection *self) {
  for (size_t i = 0; i < self->watched_count; i++)
    if (self->watched[i]->version != self->versions[i])
      return true;
  return false;
}

/* Returns whether the fault applies to this command, which has arrived or is executed in a
   transaction. */
static bool take_fault(struct redis_store *self, const redisReply *command, bool inside) {
  struct redis_store_fault *fault = &self->fault;
  if (fault->command == NULL || (fault->effect == REDIS_STORE_REFUSES_INSIDE) != inside ||
      !begins(command, fault->command) || (fault->skip > 0 && fault->skip-- > 0))
    return false;
  if (fault->times > 0 && --fault->times == 0)
    fault->command = NULL;
  self->injected++;
  return true;
}

static void execute_queued(struct connection *self, struct buffer *out) {
  if (self->aborted) {
    append(out, "-EXECABORT Transaction discarded because of previous errors.\r\n");
  } else if (watched_changed(self)) {
    append(out, "*-1\r\n");
  } else {
    append(out, "*%zu\r\n", self->queued_count);
    append(&self->store->executed, "%s MULTI\n", self->role);
    for (size_t i = 0; i < self->queued_count; i++) {
      if (take_fault(self->store, self->queued[i], true)) {
        append(out, "-%s\r\n", self->store->fault.text);
        continue;
      }
      write_down(self, self->queued[i]);
      execute(self->store, self->queued[i], out);
    }
    append(&self->store->executed, "%s EXEC\n", self->role);
  }
  clear_queue(self);
}

static void watch(struct connection *self, const redisReply *command) {
  for (size_t i = 1; i < command->elements; i++) {
    struct key *key = find(self->store, word(command, i));
    bool known = false;
    for (size_t j = 0; j < self->watched_count; j++)
      known |= self->watched[j] == key;
    if (known)
      continue;
    assert_true(self->watched_count < WATCHED_MAX);
    self->watched[self->watched_count] = key;
    self->versions[self->watched_count++] = key->version;
  }
}

/* CLIENT SETNAME sandbox:<job>:<role> */
static void name_connection(struct connection *self, const redisReply *command) {
  const char *name = word(command, command->elements - 1), *role = strrchr(name, ':');
  snprintf(self->role, sizeof self->role, "%s", role != NULL ? role + 1 : name);
}

/* Returns the error of a command that begins or ends a transaction at the wrong time, or NULL. */
static const char *misplaced(const struct connection *self, const redisReply *command) {
  if (self->in_transaction && is(command, "MULTI"))
    return "-ERR MULTI calls can not be nested\r\n";
  if (self->in_transaction && is(command, "WATCH"))
    return "-ERR WATCH inside MULTI is not allowed\r\n";
  if (!self->in_transaction && is(command, "DISCARD"))
    return "-ERR DISCARD without MULTI\r\n";
  return !self->in_transaction && is(command, "EXEC") ? "-ERR EXEC without MULTI\r\n" : NULL;
}

/* Returns true if the command concerns the connection and no key. */
static bool take_control(struct connection *self, const redisReply *command, struct buffer *out) {
  const char *error = misplaced(self, command);
  if (error != NULL) {
    append(out, "%s", error);
    return true;
  }
  if (is(command, "EXEC")) {
    execute_queued(self, out);
    return true;
  }
  if (is(command, "MULTI"))
    self->in_transaction = true;
  else if (is(command, "DISCARD"))
    clear_queue(self);
  else if (is(command, "WATCH"))
    watch(self, command);
  else if (is(command, "CLIENT"))
    name_connection(self, command);
  else
    return false;
  append(out, "+OK\r\n");
  return true;
}

/* Returns the command, or NULL if it is kept. */
static redisReply *take_data(struct connection *self, redisReply *command, struct buffer *out) {
  if (self->in_transaction) {
    assert_true(self->queued_count < QUEUE_MAX);
    self->queued[self->queued_count++] = command;
    append(out, "+QUEUED\r\n");
    return NULL;
  }
  if (!is(command, "BLMOVE")) {
    write_down(self, command);
    execute(self->store, command, out);
    return command;
  }
  if (try_move(self, command))
    return command;
  double seconds = strtod(word(command, 5), NULL);
  const struct timeval limit = {.tv_sec = (time_t)seconds,
                                .tv_usec =
                                    (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
  evtimer_add(self->block_limit, &limit);
  self->blocked = command;
  return NULL;
}

static void drop(struct redis_store *self, size_t number) {
  struct connection *connection = self->connections[number];
  self->connections[number] = NULL;
  clear_queue(connection);
  if (connection->blocked != NULL)
    unblock(connection);
  event_free(connection->readable);
  event_free(connection->block_limit);
  event_free(connection->writable);
  freeReplyObject(connection->kept);
  redisReaderFree(connection->reader);
  buffer_release(&connection->out);
  close(connection->fd);
  free(connection);
}

/* A BLMOVE of a lost connection is served first, because it has waited longer. */
static void serve_blocked(struct redis_store *self) {
  for (int stray = 1; stray >= 0; stray--)
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
      struct connection *at = self->connections[i];
      if (at != NULL && at->is_stray == stray && at->blocked != NULL && try_move(at, at->blocked)) {
        unblock(at);
        if (stray)
          drop(self, i);
        else
          take_all(at);
      }
    }
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  send_answers(context);
}

/* An error inside a transaction aborts it. */
static void refuse_command(struct connection *self, const redisReply *command) {
  self->aborted |= self->in_transaction;
  if (is(command, "CLIENT"))
    name_connection(self, command); /* for redis_store_executed */
  append(&self->out, "-%s\r\n", self->store->fault.text);
}

/* Takes ownership of the command. EXEC ends a transaction, whatever its reply is. */
static void take(struct connection *self, redisReply *command) {
  struct redis_store *store = self->store;
  const struct redis_store_fault *fault = &store->fault;
  bool concerned = self->endless == NULL && take_fault(store, command, false);
  if (concerned)
    send_answers(self); /* the replies to the commands before it */
  if (concerned && fault->effect == REDIS_STORE_HOLDS) {
    self->is_held = true;
    self->kept = command;
    return;
  }
  self->is_muted |= concerned && fault->effect == REDIS_STORE_MUTES;
  if (concerned && fault->effect != REDIS_STORE_MUTES) {
    if (fault->effect == REDIS_STORE_REFUSES)
      refuse_command(self, command);
    else
      append(&self->out, "%s", fault->text);
    self->endless = fault->endless;
    if (is(command, "EXEC"))
      clear_queue(self);
  } else if (self->endless == NULL && !take_control(self, command, &self->out)) {
    command = take_data(self, command, &self->out);
  }
  freeReplyObject(command);
  serve_blocked(store);
}

static bool is_held(const struct connection *self) {
  const char *held = self->store->held;
  return self->is_held || (held != NULL && strcmp(held, self->role) == 0);
}

/* Returns the next complete command, or NULL. */
static redisReply *next_command(struct connection *self) {
  void *command = self->kept;
  self->kept = NULL;
  if (command == NULL)
    (void)redisReaderGetReply(self->reader, &command);
  return command;
}

/* Executes the commands that have arrived, unless they are held. */
static void take_all(struct connection *self) {
  for (redisReply *command;
       !is_held(self) && self->blocked == NULL && (command = next_command(self)) != NULL;)
    take(self, command);
  if (!is_held(self))
    send_answers(self);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct connection *self = context;
  struct buffer *received = &self->store->received;
  char bytes[16384];
  ssize_t length = recv((int)fd, bytes, sizeof bytes - 1, 0);
  if (length > 0) {
    bytes[length] = '\0';
    buffer_add(received, bytes, (size_t)length + 1);
    received->length--;
    assert_int_equal(redisReaderFeed(self->reader, bytes, (size_t)length), REDIS_OK);
    take_all(self);
    return;
  }
  for (size_t i = 0; i < CONNECTIONS_MAX; i++)
    if (self->store->connections[i] == self) {
      drop(self->store, i);
      return;
    }
}

static void on_incoming(evutil_socket_t listener, short what, void *context) {
  (void)what;
  struct redis_store *self = context;
  int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0)
    return;
  struct connection *connection = calloc(1, sizeof *connection);
  assert_non_null(connection);
  size_t number = 0;
  while (number + 1 < CONNECTIONS_MAX && self->connections[number] != NULL)
    number++;
  assert_null(self->connections[number]);
  self->connections[number] = connection;
  connection->store = self;
  connection->fd = fd;
  connection->reader = redisReaderCreate();
  connection->block_limit = evtimer_new(self->base, on_block_limit, connection);
  connection->readable = event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, connection);
  connection->writable = event_new(self->base, fd, EV_WRITE, on_writable, connection);
  event_add(connection->readable, NULL);
}

/* --- the store -------------------------------------------------------------------------------- */

void redis_store_come_back(struct redis_store *self) {
  self->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_true(self->listener >= 0);
  assert_int_equal(bind(self->listener, (struct sockaddr *)&self->path, sizeof self->path), 0);
  assert_int_equal(listen(self->listener, CONNECTIONS_MAX), 0);
  self->incoming = event_new(self->base, self->listener, EV_READ | EV_PERSIST, on_incoming, self);
  event_add(self->incoming, NULL);
}

void redis_store_go_away(struct redis_store *self) {
  if (self->listener >= 0) {
    event_free(self->incoming);
    close(self->listener);
    unlink(self->path.sun_path);
  }
  self->listener = -1;
  for (size_t i = 0; i < CONNECTIONS_MAX; i++)
    if (self->connections[i] != NULL)
      drop(self, i);
}

struct redis_store *redis_store_new(struct event_base *base) {
  struct redis_store *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = base;
  strcpy(self->directory, "/tmp/redis-store-XXXXXX");
  assert_non_null(mkdtemp(self->directory));
  self->path.sun_family = AF_UNIX;
  snprintf(self->path.sun_path, sizeof self->path.sun_path, "%s/socket", self->directory);
  self->at.host = self->path.sun_path;
  redis_store_come_back(self);
  return self;
}

void redis_store_free(struct redis_store *self) {
  redis_store_go_away(self);
  rmdir(self->directory);
  release_keys(self->keys);
  buffer_release(&self->received);
  buffer_release(&self->executed);
  free(self);
}

struct redis_url redis_store_url(const struct redis_store *self) {
  return (struct redis_url){.hosts = (struct redis_address *)(uintptr_t)&self->at, .host_count = 1};
}

void redis_store_lose(struct redis_store *self, const char *role, bool stray) {
  for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
    struct connection *at = self->connections[i];
    if (at == NULL || at->is_stray || strcmp(at->role, role) != 0)
      continue;
    if (stray && at->blocked != NULL) {
      at->is_stray = true;
      at->role[0] = '\0';
      (void)event_del(at->readable);
      (void)shutdown(at->fd, SHUT_RDWR);
    } else {
      drop(self, i);
    }
  }
}

struct redis_store_snapshot {
  struct key keys[KEYS_MAX];
};

struct redis_store_snapshot *redis_store_snapshot(const struct redis_store *self) {
  struct redis_store_snapshot *snapshot = calloc(1, sizeof *snapshot);
  assert_non_null(snapshot);
  for (size_t i = 0; i < KEYS_MAX && self->keys[i].name != NULL; i++) {
    snapshot->keys[i].name = strdup(self->keys[i].name);
    copy_values(&snapshot->keys[i], &self->keys[i]);
  }
  return snapshot;
}

void redis_store_snapshot_free(struct redis_store_snapshot *snapshot) {
  if (snapshot != NULL)
    release_keys(snapshot->keys);
  free(snapshot);
}

void redis_store_restore(struct redis_store *self, const struct redis_store_snapshot *snapshot) {
  redis_store_go_away(self);
  for (size_t i = 0; i < KEYS_MAX; i++)
    clear(&self->keys[i]);
  for (size_t i = 0; snapshot != NULL && i < KEYS_MAX && snapshot->keys[i].name != NULL; i++)
    copy_values(find(self, snapshot->keys[i].name), &snapshot->keys[i]);
  redis_store_come_back(self);
}

void redis_store_hold(struct redis_store *self, const char *role) {
  self->held = role;
  for (size_t i = 0; i < CONNECTIONS_MAX && role == NULL; i++) {
    struct connection *at = self->connections[i];
    if (at == NULL)
      continue;
    at->is_held = at->is_muted = false;
    take_all(at);
  }
}

void redis_store_inject(struct redis_store *self, struct redis_store_fault fault) {
  self->fault = fault;
  self->injected = 0;
}

int redis_store_injected(const struct redis_store *self) {
  return self->injected;
}

void redis_store_send(struct redis_store *self, const char *role, const char *bytes) {
  for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
    struct connection *at = self->connections[i];
    if (at == NULL || strcmp(at->role, role) != 0)
      continue;
    append(&at->out, "%s", bytes);
    send_answers(at);
  }
}

void redis_store_stop_reading(struct redis_store *self) {
  for (size_t i = 0; i < CONNECTIONS_MAX; i++)
    if (self->connections[i] != NULL)
      (void)event_del(self->connections[i]->readable);
}

void redis_store_read_on(struct redis_store *self) {
  for (size_t i = 0; i < CONNECTIONS_MAX; i++)
    if (self->connections[i] != NULL && !self->connections[i]->is_stray)
      event_add(self->connections[i]->readable, NULL);
}

const char *redis_store_received(const struct redis_store *self, size_t *length) {
  if (length != NULL)
    *length = self->received.length;
  return self->received.bytes != NULL ? self->received.bytes : "";
}

void redis_store_do(struct redis_store *self, int words, const char *command) {
  redisReply elements[8], *element[8] = {NULL},
                          all = {.type = REDIS_REPLY_ARRAY, .element = element};
  char *text = strdup(command), *at = text;
  struct buffer out = {0};
  assert_in_range(words, 2, 8);
  for (int i = 0; i < words; i++) {
    char *end = i + 1 < words ? strchr(at, ' ') : at + strlen(at);
    assert_non_null(end);
    bool last = *end == '\0';
    *end = '\0';
    elements[i] = (redisReply){.type = REDIS_REPLY_STRING, .str = at, .len = strlen(at)};
    element[i] = &elements[i];
    at = last ? end : end + 1;
  }
  all.elements = (size_t)words;
  execute(self, &all, &out);
  buffer_release(&out);
  free(text);
  serve_blocked(self);
}

static const struct key *known(const struct redis_store *self, const char *name) {
  static const struct key none;
  for (size_t i = 0; i < KEYS_MAX && self->keys[i].name != NULL; i++)
    if (strcmp(self->keys[i].name, name) == 0)
      return &self->keys[i];
  return &none;
}

const char *redis_store_element(const struct redis_store *self, const char *key, size_t number) {
  const struct key *at = known(self, key);
  return number < at->count ? at->values[number] : NULL;
}

size_t redis_store_count(const struct redis_store *self, const char *key) {
  return known(self, key)->count;
}

const char *redis_store_value(const struct redis_store *self, const char *key) {
  static char text[1 << 19];
  size_t length = 0;
  text[0] = '\0';
  const struct key *at = known(self, key);
  for (size_t i = 0; i < at->count; i++) {
    length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", at->values[i]);
    assert_true(length < sizeof text);
  }
  return text;
}

const char *redis_store_executed(const struct redis_store *self) {
  return self->executed.bytes != NULL ? self->executed.bytes : "";
}

void redis_store_forget_executed(struct redis_store *self) {
  buffer_release(&self->executed);
}

int redis_store_connections(const struct redis_store *self, const char *role) {
  int count = 0;
  for (size_t i = 0; i < CONNECTIONS_MAX; i++)
    count += self->connections[i] != NULL && strcmp(self->connections[i]->role, role) == 0;
  return count;
}
