/*
 * Whole conversations: the Redis frontend, from its handshakes on, with a server whose replies are
 * any bytes. Nothing is sent: the dialer returns a transport whose bytes come from the input, time
 * is virtual, commands are not executed but answered, and the random number is always the same.
 *
 * The server is honest, except for what the input, a script, says about one of the connections:
 *
 *   F0 F1 F2   the rest is about the connection of the outbox, the consumer, the heartbeat
 *   F3 bytes   sends these bytes
 *   F4 bytes   answers the next command with them
 *   F5 bytes   answers each command with them from now on; no bytes: honestly again
 *   F6         closes the connection
 *   F7         lets a second pass
 */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/dialer.h"
#include "agent/frontends/redis/connection/transport.h"
#include "agent/frontends/redis/frontend.h"
#include "agent/kinds/kind.h"
#include "base/buffer.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/virtual_time.h"

enum role { OUTBOX, CONSUMER, HEARTBEAT, ROLES };

/* Limits while no time passes: commands that are answered without a step, and connections. If each
   answer has a string, and so may be a step, the server becomes honest after this many. */
enum { COMMANDS_MAX = 20000, CONNECTIONS_MAX = 200, STRINGS_MAX = 200, TURNS_MAX = 200000 };

enum { SENT_AT_ONCE = 1000, END_MS = 20000 };

struct peer {
  struct transport transport; /* first */
  enum role role;
  struct buffer in;     /* from the agent: the beginning of a command */
  struct buffer out;    /* to the agent */
  size_t read;          /* of `out` */
  size_t transaction;   /* 1 + its commands; 0: no transaction is open */
  struct buffer queued; /* their answers */
  char committed[80];   /* the value that the transaction sets */
  bool is_closed;
};

struct execution {
  struct step step;
  void *user_data;
  bool is_started, is_stopped;
};

/* The state of one input; the functions of the engine and of the dialer have no owner. */
static struct world {
  struct event_base *base;
  struct frontend *frontend;
  struct event *work; /* of the execution */
  struct execution *execution;
  const char *leaving;
  bool is_over;
  struct peer *peers[ROLES];
  struct command_word once[ROLES], always[ROLES];
  unsigned strings[ROLES];
  unsigned commands, connections; /* since time has passed */
  char committed[80];
} world;

uint64_t random_u64(void) {
  return 0x0123456789abcdef;
}

/* --- the server ------------------------------------------------------------------------------- */

/* The socket is readable while there are bytes. */
static void tell(const struct peer *self) {
  uint64_t number = 1;
  bool there = self->read < self->out.length || self->is_closed;
  if (there)
    demand(write(self->transport.fd, &number, sizeof number) == sizeof number);
  else
    (void)read(self->transport.fd, &number, sizeof number);
}

static void send_text(struct buffer *out, const char *text) {
  buffer_add(out, text, strlen(text));
}

static bool is_word(const struct command_word *word, const char *text, size_t length) {
  return word->length == length && (length == 0 || memcmp(word->text, text, length) == 0);
}

static void answer_get(struct buffer *out, const struct command_word *key) {
  static const char name[] = "sandbox:j:committed";
  char text[sizeof world.committed + 32];
  if (world.committed[0] == '\0' || !is_word(key, name, sizeof name - 1)) {
    send_text(out, "$-1\r\n");
    return;
  }
  (void)snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(world.committed), world.committed);
  send_text(out, text);
}

static void note_committed(struct peer *self, const struct command_word *words) {
  static const char name[] = "sandbox:j:committed";
  if (is_word(&words[0], "SET", 3) && is_word(&words[1], name, sizeof name - 1))
    (void)snprintf(self->committed, sizeof self->committed, "%.*s", (int)words[2].length,
                   words[2].text);
}

/* Answers the command, and remembers only `committed`. A BLMOVE waits. */
static void execute(struct buffer *out, const struct command_word *words) {
  static const struct {
    const char *name, *answer;
  } answers[] = {{"WATCH", "+OK\r\n"},      {"CLIENT", "+OK\r\n"},
                 {"SET", "+OK\r\n"},        {"SELECT", "+OK\r\n"},
                 {"XADD", "$3\r\n1-1\r\n"}, {"LINDEX", "$-1\r\n"},
                 {"XREVRANGE", "*0\r\n"},   {"BLMOVE", ""},
                 {"BRPOPLPUSH", ""},        {"LLEN", ":0\r\n"},
                 {"LRANGE", "*0\r\n"}};
  static const char control[] = "sandbox:j:control";
  if (is_word(&words[0], "BLMOVE", 6) && is_word(&words[1], control, sizeof control - 1)) {
    send_text(out, "*-1\r\n"); /* at once: what comes behind it is answered, too */
    return;
  }
  if (is_word(&words[0], "GET", 3)) {
    answer_get(out, &words[1]);
    return;
  }
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
    if (is_word(&words[0], answers[i].name, strlen(answers[i].name))) {
      send_text(out, answers[i].answer);
      return;
    }
  send_text(out, ":1\r\n");
}

static void end_transaction(struct peer *self, bool executed) {
  char head[32];
  (void)snprintf(head, sizeof head, "*%zu\r\n", self->transaction - 1);
  send_text(&self->out, executed ? head : "+OK\r\n");
  if (executed && self->committed[0] != '\0')
    memcpy(world.committed, self->committed, sizeof self->committed);
  self->committed[0] = '\0';
  if (executed)
    buffer_add(&self->out, self->queued.bytes, self->queued.length);
  self->queued.length = 0;
  self->transaction = 0;
}

static void answer_honestly(struct peer *self, const struct command_word *words) {
  if (is_word(&words[0], "MULTI", 5)) {
    self->transaction = 1;
    send_text(&self->out, "+OK\r\n");
  } else if (is_word(&words[0], "EXEC", 4) && self->transaction > 0) {
    end_transaction(self, true);
  } else if (is_word(&words[0], "DISCARD", 7)) {
    end_transaction(self, false);
  } else if (self->transaction > 0) {
    self->transaction++;
    note_committed(self, words);
    execute(&self->queued, words);
    send_text(&self->out, "+QUEUED\r\n");
  } else {
    execute(&self->out, words);
  }
}

static void answer(struct peer *self, const struct command_word *words) {
  struct command_word *once = &world.once[self->role], *always = &world.always[self->role];
  demand(++world.commands < COMMANDS_MAX);
  if (is_word(&words[0], "AUTH", 4))
    demand(false); /* the agent knows no password */
  if (once->text != NULL) {
    buffer_add(&self->out, once->text, once->length);
    *once = (struct command_word){0};
  } else if (always->length > 0) {
    buffer_add(&self->out, always->text, always->length);
    if (memchr(always->text, '$', always->length) != NULL &&
        ++world.strings[self->role] == STRINGS_MAX)
      always->length = 0;
  } else {
    answer_honestly(self, words);
  }
}

/* The agent names each connection first. */
static void learn_role(struct peer *self, const struct command_word *words) {
  static const char *const names[ROLES] = {"sandbox:j:out", "sandbox:j:in", "sandbox:j:heartbeat"};
  for (int role = 0; role < ROLES; role++)
    if (is_word(&words[2], names[role], strlen(names[role]))) {
      self->role = (enum role)role;
      world.peers[role] = self;
    }
}

/* Returns the length of the first command if it is complete, else 0. The agent has encoded it. */
static size_t command_size(const struct buffer *in) {
  const char *at = in->bytes, *end = at + in->length;
  char *line;
  if (in->length < 4 || memchr(at, '\n', in->length) == NULL)
    return 0;
  demand(*at == '*');
  unsigned long words = strtoul(at + 1, &line, 10);
  for (at = line + 2; words > 0; words--) {
    if (at >= end || memchr(at, '\n', (size_t)(end - at)) == NULL)
      return 0;
    demand(*at == '$');
    unsigned long length = strtoul(at + 1, &line, 10);
    if ((size_t)(end - line) < length + 4)
      return 0;
    at = line + 2 + length + 2;
  }
  return (size_t)(at - in->bytes);
}

static void take_commands(struct peer *self) {
  for (size_t size; (size = command_size(&self->in)) > 0;) {
    struct command_word words[4] = {{.text = ""}};
    const char *at = self->in.bytes;
    demand(command_read(&at, self->in.bytes + size, words, 4));
    if (is_word(&words[0], "CLIENT", 6))
      learn_role(self, words);
    answer(self, words);
    memmove(self->in.bytes, self->in.bytes + size, self->in.length - size);
    self->in.length -= size;
  }
  tell(self);
}

/* --- the transport ---------------------------------------------------------------------------- */

static ssize_t read_bytes(struct transport *transport, void *bytes, size_t size) {
  struct peer *self = (struct peer *)transport;
  size_t length = self->out.length - self->read;
  length = length < size ? length : size;
  length = length < SENT_AT_ONCE ? length : SENT_AT_ONCE;
  if (length == 0)
    return self->is_closed ? 0 : TRANSPORT_WAITS;
  memcpy(bytes, self->out.bytes + self->read, length);
  self->read += length;
  if (self->read == self->out.length)
    self->read = self->out.length = 0;
  tell(self);
  return (ssize_t)length;
}

static ssize_t write_bytes(struct transport *transport, const struct iovec *pieces, int count) {
  struct peer *self = (struct peer *)transport;
  ssize_t written = 0;
  if (self->is_closed)
    return TRANSPORT_FAILED;
  for (int i = 0; i < count; i++) {
    if (pieces[i].iov_len > 0)
      buffer_add(&self->in, pieces[i].iov_base, pieces[i].iov_len);
    written += (ssize_t)pieces[i].iov_len;
  }
  take_commands(self);
  return written;
}

static void free_peer(struct transport *transport) {
  struct peer *self = (struct peer *)transport;
  if (world.peers[self->role] == self)
    world.peers[self->role] = NULL;
  close(transport->fd);
  buffer_release(&self->in);
  buffer_release(&self->out);
  buffer_release(&self->queued);
  free(self);
}

static const struct transport_type type = {
    .is_plain = true, .read = read_bytes, .write = write_bytes, .free = free_peer};

static struct transport *peer_new(void) {
  struct peer *self = memory_allocate(sizeof *self);
  *self = (struct peer){.transport = {.type = &type,
                                      .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                      .error = "Broken pipe"}};
  demand(self->transport.fd >= 0);
  return &self->transport;
}

/* --- in place of the dialer ------------------------------------------------------------------- */

struct dialer {
  struct event *timer;
  transport_done *done;
  void *owner;
};

void dialer_cancel(struct dialer *self) {
  event_free(self->timer);
  free(self);
}

static void on_dialed(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct dialer *self = context;
  demand(++world.connections < CONNECTIONS_MAX);
  self->done(self->owner, peer_new(), (struct connection_error){0});
  dialer_cancel(self);
}

struct dialer *dialer_start(struct event_base *base, const struct redis_address *to,
                            struct tls *tls, transport_done *done, void *owner) {
  struct dialer *self = memory_allocate(sizeof *self);
  (void)to;
  (void)tls;
  *self = (struct dialer){.done = done, .owner = owner};
  self->timer = loop_timer_new(base, on_dialed, self);
  loop_timer_start_now(self->timer);
  return self;
}

/* --- in place of the engine ------------------------------------------------------------------- */

const struct step *execution_step(const struct execution *execution) {
  return &execution->step;
}

const struct log *execution_log(const struct execution *execution) {
  static const struct log nowhere = {.least = LOG_ERROR + 1, .fd = -1};
  (void)execution;
  return &nowhere;
}

void *execution_user_data(const struct execution *execution) {
  return execution->user_data;
}

static struct step_event event_of(enum step_event_kind kind, const char *line, uint64_t seq) {
  return (struct step_event){.schema_version = 1,
                             .kind = kind,
                             .step_id = "s",
                             .step_id_length = 1,
                             .line = line,
                             .line_length = strlen(line),
                             .timestamp = "2026-05-05T10:00:00.123+00:00",
                             .seq = seq};
}

void execution_step_end(const struct execution *execution, const struct execution_result *end,
                        struct step_end *out) {
  (void)end;
  out->completed = event_of(STEP_EVENT_COMPLETED, "", 3);
  out->result =
      step_result_of_agent(1, execution->step.step_id, STEP_CAUSE_CANCELLED, "not executed");
}

/* A step prints one line and ends. */
static void on_work(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  (void)context;
  struct execution *execution = world.execution;
  if (execution == NULL || (!execution->is_started && !execution->is_stopped))
    return;
  const struct step_event line = event_of(STEP_EVENT_STDOUT, "a line", 2);
  const struct execution_result end = {.outcome = EXECUTION_STOPPED};
  if (execution->is_started && world.frontend->type->capacity(world.frontend) > 0)
    world.frontend->type->event(world.frontend, execution, &line);
  world.frontend->type->result(world.frontend, execution, &end);
  world.execution = NULL;
  step_release(&execution->step);
  free(execution);
  world.frontend->type->activity(world.frontend, 0);
  world.frontend->type->flush(world.frontend);
  if (world.leaving == NULL)
    world.frontend->type->want(world.frontend, 1);
}

void engine_submit(struct frontend *frontend, struct request *request) {
  demand(world.execution == NULL && request->step.step_id != NULL);
  struct execution *execution = memory_allocate(sizeof *execution);
  *execution = (struct execution){.step = request->step, .user_data = request->user_data};
  request->step = (struct step){0};
  world.execution = execution;
  const struct step_event started = event_of(STEP_EVENT_STARTED, "", 1);
  frontend->type->activity(frontend, 1);
  frontend->type->event(frontend, execution, &started);
  frontend->type->begin(frontend, execution);
}

void engine_start(struct execution *execution) {
  demand(execution == world.execution && !execution->is_started);
  execution->is_started = true;
  loop_timer_start(world.work, 1);
}

void engine_stop(struct execution *execution, int64_t grace_ms, enum step_cause cause,
                 const char *reason) {
  (void)cause;
  (void)grace_ms;
  (void)reason;
  demand(execution == world.execution);
  execution->is_stopped = true;
  loop_timer_start(world.work, 1);
}

void engine_mask_rejected(struct frontend *frontend, const char *payload, size_t length,
                          struct error *error) {
  (void)frontend;
  (void)payload;
  (void)length;
  (void)error;
}

void engine_capacity_freed(struct frontend *frontend) {
  (void)frontend;
}

bool engine_cancel(struct frontend *frontend, const char *step_id, const char *reason) {
  (void)frontend;
  if (world.execution == NULL || strcmp(world.execution->step.step_id, step_id) != 0)
    return false;
  engine_stop(world.execution, 0, STEP_CAUSE_CANCELLED, reason);
  return true;
}

bool engine_await_dead_agents(struct frontend *frontend) {
  (void)frontend;
  return world.commands % 2 == 0;
}

void engine_add_abilities(const struct frontend *frontend, const char *abi, const char *list,
                          struct buffer *json) {
  (void)frontend;
  buffer_add_format(json, ",\"%s\":0,\"%s\":[]", abi, list);
}

void engine_touch(struct frontend *frontend) {
  (void)frontend;
}

int64_t engine_idle_left_ms(const struct frontend *frontend) {
  (void)frontend;
  return 60000;
}

void engine_wait_on(struct frontend *frontend, int64_t milliseconds) {
  (void)frontend;
  (void)milliseconds;
}

void engine_leave(struct frontend *frontend, int exit_code, const char *reason) {
  (void)exit_code;
  if (world.leaving != NULL)
    return;
  world.leaving = reason;
  frontend->type->want(frontend, 0);
}

const char *engine_leaving(const struct frontend *frontend) {
  (void)frontend;
  return world.leaving;
}

void engine_frontend_closed(struct frontend *frontend, int lost) {
  (void)frontend;
  (void)lost;
  demand(!world.is_over);
  world.is_over = true;
}

/* --- the script ------------------------------------------------------------------------------- */

static void pass_ms(int64_t milliseconds) {
  int64_t end_ms = virtual_time_ms + milliseconds;
  int turns = 0;
  for (int64_t left_ms; (left_ms = end_ms - virtual_time_ms) > 0;) {
    int64_t before_ms = virtual_time_ms;
    const struct timeval left = {left_ms / 1000, left_ms % 1000 * 1000};
    event_base_loopexit(world.base, &left);
    event_base_loop(world.base, EVLOOP_ONCE);
    turns = virtual_time_ms == before_ms ? turns + 1 : 0;
    demand(turns < TURNS_MAX);
    if (turns == 0)
      world.commands = world.connections = 0;
  }
}

/* F3 to F7, for this connection. */
static void obey(enum role role, uint8_t order, const char *bytes, size_t length) {
  struct peer *peer = world.peers[role];
  const struct command_word text = {.text = bytes, .length = length};
  if (order == 0xF4) {
    world.once[role] = text;
  } else if (order == 0xF5) {
    world.always[role] = text;
    world.strings[role] = 0;
  } else if (order == 0xF7) {
    pass_ms(1000);
  } else if (peer != NULL && order == 0xF6) {
    peer->is_closed = true;
    tell(peer);
  } else if (peer != NULL && length > 0) {
    buffer_add(&peer->out, bytes, length);
    tell(peer);
  }
  pass_ms(1);
}

static void play(const char *at, const char *end) {
  enum role role = OUTBOX;
  while (at < end) {
    uint8_t order = (uint8_t)*at;
    bool is_order = order >= 0xF0 && order <= 0xF7;
    const char *bytes = is_order ? at + 1 : at;
    const char *next = bytes;
    while (next < end && ((uint8_t)*next < 0xF0 || (uint8_t)*next > 0xF7))
      next++;
    if (is_order && order < 0xF3) {
      role = (enum role)(order - 0xF0);
      next = bytes;
    } else {
      obey(role, is_order ? order : 0xF3, bytes, (size_t)(next - bytes));
    }
    at = next;
  }
}

static void leave(void) {
  for (int role = 0; role < ROLES; role++)
    world.always[role].length = 0;
  engine_leave(world.frontend, 0, "the end");
  world.frontend->type->close(world.frontend, FRONTEND_CLOSE_FAST);
  pass_ms(END_MS);
  world.frontend->type->close(world.frontend, FRONTEND_CLOSE_IMMEDIATE);
  demand(world.is_over);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct redis_address host = {.host = "localhost", .port = 6379};
  static const struct redis_url url = {.hosts = &host, .host_count = 1};
  static int nowhere = -1;
  if (nowhere < 0)
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const struct log log = {.least = LOG_INFO, .fd = nowhere};
  const struct redis_frontend_options options = {
      .delivery = {.url = &url, .events_maxlen = 10000, .hold_bytes = (size_t)1 << 20},
      .job_id = "j",
      .idle_cycle_ms = 60000};
  virtual_time_ms = 1000000;
  world = (struct world){.base = loop_event_base_new()};
  world.work = loop_timer_new(world.base, on_work, NULL);
  world.frontend = redis_frontend_new(world.base, &log, &options);
  world.frontend->type->want(world.frontend, 1);
  pass_ms(1);
  play((const char *)data, (const char *)data + size);
  leave();
  if (world.execution != NULL) {
    step_release(&world.execution->step);
    free(world.execution);
  }
  world.frontend->type->free(world.frontend);
  event_free(world.work);
  event_base_free(world.base);
  return 0;
}
