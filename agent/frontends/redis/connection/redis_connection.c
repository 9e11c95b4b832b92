/*
 * Every failure goes through lose(), which closes the connection and either tries the next host,
 * pauses or gives up; a redirection goes through redial(). A sentinel is a host whose handshake is
 * one query, and whose answer is a redirection to the master. The owner may call any function
 * inside a callback, so a callback is the last thing that a function does.
 */
#include "agent/frontends/redis/connection/redis_connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/dialer.h"
#include "agent/frontends/redis/connection/endpoint.h"
#include "agent/frontends/redis/connection/redis_socket.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* From the connected socket to the last reply of the handshake. */
#define HANDSHAKE_MS 5000

/* For each sentinel, from resolving its name to its reply. */
#define SENTINEL_MS 2000

/* The most commands of the login. */
#define LOGIN_COMMANDS 4

static const char set_name[] = "CLIENT SETNAME";
static const char role[] = "ROLE";

struct handshake {
  struct buffer text; /* the encoded commands of the login, with the password, and of the owner */
  const char *names[LOGIN_COMMANDS]; /* of the commands of the login, for people */
  int count;                         /* of these */
  size_t end;                        /* of what may be sent before further replies */
  size_t sent;                       /* bytes */
  int answered;                      /* commands */
  struct reply value;                /* for ready(); its text is owned */
};

/* The longest reason names a certificate, its issuer and the server. */
#define REASON_SIZE 512

struct reason {
  char text[REASON_SIZE]; /* "": none */
  int code;               /* see connection_error.h */
};

/* The hosts that have failed, one after another, since the server worked or a sentinel has named
   it. */
struct round {
  struct reason reason; /* the most useful one */
  char server[256];     /* whose reason that is */
  size_t rank;          /* of the reason: the lower, the more useful. 0: there is none */
};

struct outage {
  char reason[REASON_SIZE]; /* the last one that was logged */
  int64_t logged_ms;        /* when that was; 0: never */
  int64_t since_ms;         /* 0: there is no outage */
};

struct redis_connection {
  const struct log *log;
  struct redis_connection_options options;
  const struct redis_connection_handler *handler;
  void *owner;
  char server[256]; /* for people */
  char name[128];   /* for CLIENT LIST */
  enum redis_connection_state state;
  struct event_base *base;
  struct event *timer; /* of the pause, the handshake, and the dialing of a sentinel */
  struct endpoint endpoint;
  struct dialer *dialer;      /* NULL except while REDIS_CONNECTION_DIALING */
  struct redis_socket socket; /* open from REDIS_CONNECTION_HANDSHAKING on */
  struct handshake handshake;
  bool is_rejecting; /* the connection was lost because of an error reply */
  uint64_t connects; /* how many times it was ready */
  unsigned attempts; /* that have failed since it was ready last */
  int64_t ready_ms;  /* when it was ready last, monotonic */
  int pause_ms;      /* the next pause, before chance; 0: the shortest */
  struct outage outage;
  struct reason last_error;
  struct round round;
};

static void release_handshake(struct handshake *self) {
  if (self->text.bytes != NULL)
    explicit_bzero(self->text.bytes, self->text.length);
  buffer_release(&self->text);
  free(self->value.str);
  *self = (struct handshake){0};
}

static void disconnect(struct redis_connection *self) {
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  redis_socket_close(&self->socket);
  release_handshake(&self->handshake);
}

/* Returns the pause before the next attempt, and doubles the one after that. */
static int next_pause(struct redis_connection *self) {
  int pause_ms = self->pause_ms;
  if (pause_ms == 0)
    pause_ms = self->connects > 0 ? REDIS_CONNECTION_PAUSE_MIN_MS : REDIS_CONNECTION_FIRST_PAUSE_MS;
  self->pause_ms =
      pause_ms < REDIS_CONNECTION_PAUSE_MAX_MS / 2 ? 2 * pause_ms : REDIS_CONNECTION_PAUSE_MAX_MS;
  if (self->connects == 0)
    return pause_ms;
  return pause_ms / 2 + (int)(random_u64() % (unsigned)(pause_ms / 2 + 1));
}

/* Returns true if the reason was logged before. The first word of an error reply is its kind. */
static bool is_repeated(const struct outage *self, const char *reason, bool is_error_reply,
                        int64_t now_ms) {
  bool is_ongoing = self->since_ms != 0;
  if (!is_error_reply)
    return is_ongoing && strcmp(self->reason, reason) == 0;
  bool is_recent = is_ongoing || now_ms - self->logged_ms < REDIS_CONNECTION_REPEAT_MS;
  size_t kind = strcspn(reason, " ") + 1;
  return self->logged_ms > 0 && is_recent && strncmp(self->reason, reason, kind) == 0;
}

/* Begins or continues the outage. Returns the level at which this failure is logged. */
static enum log_level note_failure(struct outage *self, const char *reason, bool is_error_reply,
                                   int64_t now_ms) {
  bool is_new = !is_repeated(self, reason, is_error_reply, now_ms);
  if (self->since_ms == 0)
    self->since_ms = now_ms;
  if (is_new) {
    (void)snprintf(self->reason, sizeof self->reason, "%s", reason);
    self->logged_ms = now_ms;
  }
  return is_new ? LOG_WARN : LOG_DEBUG;
}

/* Redis may be restarting after a loss, so failed attempts are not logged for this long. */
#define RESTART_MS 3000

static void log_failed_attempt(struct redis_connection *self, int pause_ms) {
  int64_t now_ms = clock_monotonic_ms();
  const char *reason = self->last_error.text;
  bool is_early = self->connects > 0 && now_ms - self->outage.since_ms < RESTART_MS;
  log_line(self->log, is_early ? LOG_DEBUG : note_failure(&self->outage, reason, false, now_ms),
           NULL, "redis %s: cannot connect to %s: %s; attempt %u follows in %d ms",
           self->options.role, self->server, reason, self->attempts + 1, pause_ms);
}

static void set_reason(struct reason *self, const char *text, int code) {
  (void)snprintf(self->text, sizeof self->text, "%s", text);
  self->code = code;
}

/* Notes why this host is not the server. The most useful reason is that a sentinel does not know
   the master, then that of the first host; the least useful is that a host is a replica. So the
   reason does not depend on the host that was asked first. */
static void note_host_failure(struct redis_connection *self, const char *why, int code) {
  size_t rank = code == CONNECTION_ERROR_NO_MASTER ? 1
                : code == CONNECTION_ERROR_REPLICA ? SIZE_MAX
                                                   : 2 + self->endpoint.host;
  if (self->round.rank > 0 && self->round.rank <= rank)
    return;
  self->round.rank = rank;
  set_reason(&self->round.reason, why, code);
  endpoint_name(&self->endpoint, self->round.server, sizeof self->round.server);
}

/* Copies the reason, which disconnect() may free. */
static void copy_reason(const struct redis_connection *self, const char *text,
                        char why[REASON_SIZE]) {
  char name[80];
  if (endpoint_is_sentinel(&self->endpoint)) {
    (void)redis_address_name(&self->endpoint.at, name, sizeof name);
    (void)snprintf(why, REASON_SIZE, "sentinel %s: %s", name, text);
  } else {
    (void)snprintf(why, REASON_SIZE, "%s", text);
  }
}

static void dial_soon(struct redis_connection *self) {
  self->state = REDIS_CONNECTION_PAUSING;
  loop_timer_start_now(self->timer);
}

/* Handles the loss of the connection, or of the attempt to make one. */
static void lose(void *owner, struct connection_error reason) {
  struct redis_connection *self = owner;
  bool was_ready = self->state == REDIS_CONNECTION_READY;
  char why[REASON_SIZE];
  copy_reason(self, reason.text, why);
  disconnect(self);
  if (was_ready) {
    set_reason(&self->last_error, why, reason.code);
    log_line(self->log, note_failure(&self->outage, why, self->is_rejecting, clock_monotonic_ms()),
             NULL,
             self->is_rejecting ? "redis %s: %s refuses for now: %s; reconnecting"
                                : "redis %s: connection to %s lost: %s; reconnecting",
             self->options.role, self->server, why);
  } else {
    note_host_failure(self, why, reason.code);
    if (endpoint_has_untried(&self->endpoint)) {
      log_line(self->log, LOG_DEBUG, NULL,
               "redis %s: cannot connect to %s: %s; the next host follows", self->options.role,
               self->server, why);
      dial_soon(self);
      return;
    }
    memcpy(self->server, self->round.server, sizeof self->server);
    self->last_error = self->round.reason;
    self->round.rank = 0;
    self->is_rejecting = false;
    self->attempts++;
  }
  self->state = REDIS_CONNECTION_PAUSING;
  int pause_ms = next_pause(self);
  if (!was_ready)
    log_failed_attempt(self, pause_ms);
  loop_timer_start(self->timer, pause_ms);
  void (*callback)(void *owner) =
      was_ready ? self->handler->disconnected : self->handler->unreachable;
  if (callback != NULL)
    callback(self->owner);
}

static void lose_because(struct redis_connection *self, const char *text, int code) {
  lose(self, (struct connection_error){text, code});
}

/* Reconnects at once. This is not a failure. */
static void redial(struct redis_connection *self) {
  bool was_ready = self->state == REDIS_CONNECTION_READY;
  disconnect(self);
  self->round.rank = 0;
  dial_soon(self);
  if (was_ready && self->handler->disconnected != NULL)
    self->handler->disconnected(self->owner);
}

/* Follows a redirection to another node of a cluster. Returns false if the error reply is not one,
   or after too many in a row. */
static bool follow_redirect(struct redis_connection *self, const char *text) {
  const char *target = error_reply_redirect(text);
  if (target == NULL || !endpoint_redirect(&self->endpoint, target))
    return false;
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: redirected to %s", self->options.role, target);
  redial(self);
  return true;
}

/* --- the handshake --------------------------------------------------------------------------- */

/* Returns the end of the first `count` commands, and the first words of the last of them. */
static const char *skip_commands(const struct handshake *self, int count,
                                 struct command_word words[2]) {
  const char *at = self->text.bytes, *end = at + self->text.length;
  for (int i = 0; i < count; i++)
    (void)command_read(&at, end, words, 2);
  return at;
}

static void send_handshake(struct redis_connection *self) {
  struct handshake *now = &self->handshake;
  struct iovec rest = {.iov_base = now->text.bytes + now->sent, .iov_len = now->end - now->sent};
  if (rest.iov_len > 0)
    now->sent += redis_socket_write(&self->socket, &rest, 1);
}

static void leave_handshake(struct redis_connection *self, const struct reply *value) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: connected to %s", self->options.role,
           self->server);
  self->socket.parser.discard_values = self->options.discard_values;
  self->socket.parser.keep_memory = self->options.keep_memory;
  self->round.rank = 0;
  self->state = REDIS_CONNECTION_READY;
  self->attempts = 0;
  self->is_rejecting = false;
  self->ready_ms = clock_monotonic_ms();
  if (self->connects++ == 0)
    self->pause_ms = 0;
  self->handler->ready(self->owner, value);
}

static void end_handshake(struct redis_connection *self) {
  struct reply value = self->handshake.value;
  self->handshake.value.str = NULL;
  release_handshake(&self->handshake);
  (void)evtimer_del(self->timer);
  if (self->handler->greeted != NULL)
    self->handler->greeted(self->owner);
  if (self->state == REDIS_CONNECTION_HANDSHAKING)
    leave_handshake(self, &value);
  free(value.str);
}

/* Returns true if the handshake is sent, and nothing in it must succeed before the owner sends. */
static bool may_leave_early(const struct redis_connection *self) {
  const struct handshake *now = &self->handshake;
  return self->options.early && now->count == 1 && now->names[0] == set_name &&
         self->options.final_commands.count == 0 && now->sent == now->text.length;
}

/* The text is allocated once, so no copy of the password is left behind. */
static void reserve_handshake(struct redis_connection *self) {
  const struct redis_url *url = self->options.url;
  const char *const texts[] = {url->user, url->password, url->master, self->name};
  size_t length = self->options.final_commands.length + 256;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    length += texts[i] != NULL ? strlen(texts[i]) : 0;
  release_handshake(&self->handshake);
  self->handshake.value.type = REPLY_NIL;
  (void)buffer_space(&self->handshake.text, length);
}

static void add_login(struct handshake *self, const char *name, const char *const *texts) {
  command_add(&self->text, texts);
  self->names[self->count++] = name;
}

static void begin_handshake(struct redis_connection *self) {
  const struct redis_url *url = self->options.url;
  const struct handshake_commands *final_commands = &self->options.final_commands;
  struct handshake *now = &self->handshake;
  struct command_word words[2];
  char database[16];
  (void)snprintf(database, sizeof database, "%u", url->database);
  reserve_handshake(self);
  if (url->user != NULL)
    add_login(now, "AUTH", COMMAND("AUTH", url->user, url->password));
  else if (url->password != NULL)
    add_login(now, "AUTH", COMMAND("AUTH", url->password));
  add_login(now, set_name, COMMAND("CLIENT", "SETNAME", self->name));
  if (url->database != 0)
    add_login(now, "SELECT", COMMAND("SELECT", database));
  if (url->master != NULL || url->host_count > 1)
    add_login(now, role, COMMAND(role));
  buffer_add(&now->text, final_commands->text, final_commands->length);
  now->end = now->text.length;
  if (final_commands->first > 0)
    now->end =
        (size_t)(skip_commands(now, now->count + final_commands->first, words) - now->text.bytes);
  self->state = REDIS_CONNECTION_HANDSHAKING;
  loop_timer_start(self->timer, HANDSHAKE_MS);
  send_handshake(self);
  if (may_leave_early(self))
    leave_handshake(self, &now->value);
}

/* --- a sentinel ------------------------------------------------------------------------------ */

/* The password is for the server. A sentinel gets it only if it requires one, for its default
   user. */
static void ask_sentinel(struct redis_connection *self, bool with_password) {
  struct handshake *now = &self->handshake;
  reserve_handshake(self);
  if (with_password)
    add_login(now, "AUTH", COMMAND("AUTH", self->options.url->password));
  command_add(&now->text,
              COMMAND("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self->options.url->master));
  now->end = now->text.length;
  self->state = REDIS_CONNECTION_HANDSHAKING;
  send_handshake(self);
}

/* Reads the host and the port of the master. Returns false if these are no address. */
static bool read_master(const struct reply *reply, struct redis_address *master) {
  if (reply->elements != 2 || reply->element[0]->type != REPLY_STRING ||
      reply->element[0]->len == 0 || reply->element[1]->type != REPLY_STRING ||
      redis_address_parse_port(reply->element[1]->str, reply->element[1]->len, &master->port) != 0)
    return false;
  master->host = memory_copy(reply->element[0]->str, strlen(reply->element[0]->str));
  return true;
}

static void handle_sentinel_reply(struct redis_connection *self, const struct reply *reply) {
  const struct redis_url *url = self->options.url;
  struct handshake *now = &self->handshake;
  struct redis_address master;
  char text[128];
  bool is_login = now->answered++ < now->count;
  if (reply->type == REPLY_ERROR && now->count == 0 && url->password != NULL &&
      strncmp(reply->str, "NOAUTH", 6) == 0) {
    ask_sentinel(self, true);
  } else if (reply->type == REPLY_ERROR) {
    lose_because(self, redis_connection_explain(self, reply->str).text,
                 error_reply_code(reply->str));
  } else if (!is_login && reply->type != REPLY_ARRAY) {
    (void)snprintf(text, sizeof text, "it knows no master '%.80s'", url->master);
    lose_because(self, text, CONNECTION_ERROR_NO_MASTER);
  } else if (!is_login && !read_master(reply, &master)) {
    lose_because(self, "its answer is not an address", CONNECTION_ERROR_NOT_REDIS);
  } else if (!is_login) {
    endpoint_set_master(&self->endpoint, master);
    redial(self);
  }
}

/* --- replies to the handshake ---------------------------------------------------------------- */

/* Sentinels name the former master until they have all learned of the new one. */
static bool is_replica(const struct reply *reply) {
  return reply->type == REPLY_ARRAY && reply->elements > 0 &&
         reply->element[0]->type == REPLY_STRING && strcmp(reply->element[0]->str, "master") != 0;
}

/* The connection's name is optional: an old server, a narrow ACL or an unusual job id must not stop
   the agent. NOAUTH and DENIED (protected mode) are not about the name. Without the permission for
   ROLE, the first write tells whether the server is the master. */
static bool may_be_rejected(const char *name, const char *text) {
  bool is_denied = strncmp(text, "NOPERM", 6) == 0;
  if (name == set_name)
    return is_denied || (strncmp(text, "ERR ", 4) == 0 && !error_reply_is_transient(text));
  return is_denied && name == role;
}

/* Tells the owner that its command with this index is rejected. Returns true if it can do without
   the command. */
static bool handle_optional(struct redis_connection *self, int owned, const char *text) {
  return owned >= 0 && !error_reply_is_transient(text) && self->handler->rejected != NULL &&
         self->handler->rejected(self->owner, owned, text);
}

/* `name` is NULL for a command of the owner, which is named with its key. */
static void handle_rejection(struct redis_connection *self, const char *name, const char *text) {
  if (error_reply_is_transient(text)) {
    if (!follow_redirect(self, text))
      lose_because(self, redis_connection_explain(self, text).text, error_reply_code(text));
    return;
  }
  struct command_word words[2] = {{.text = ""}, {.text = ""}};
  if (name != NULL)
    words[0] = command_word(name);
  else
    (void)skip_commands(&self->handshake, self->handshake.answered, words);
  const struct command_name command = command_name(&words[0], &words[1]);
  struct error error;
  (void)error_set(&error, "redis at %.60s refuses %.80s: %.120s", self->server, command.text,
                  error_reply_explain_command(text, command.text, self->options.url).text);
  error.code = error_reply_code(text);
  redis_connection_stop(self);
  self->handler->failed(self->owner, &error);
}

/* `owned` is the index of a command of the owner; it is negative for the login. */
static void handle_handshake_reply(struct redis_connection *self, const struct reply *reply) {
  struct handshake *now = &self->handshake;
  int number = now->answered++, owned = number - now->count;
  const char *name = owned < 0 ? now->names[number] : NULL;
  if (name == role && is_replica(reply)) {
    lose_because(self, "it is a replica, not yet the master", CONNECTION_ERROR_REPLICA);
  } else if (name != NULL && name != role && reply->type != REPLY_STATUS &&
             reply->type != REPLY_ERROR) {
    char why[64];
    (void)snprintf(why, sizeof why, "an invalid reply to %s", name);
    lose_because(self, why, CONNECTION_ERROR_NOT_REDIS);
  } else if (reply->type == REPLY_ERROR && !may_be_rejected(name, reply->str) &&
             !handle_optional(self, owned, reply->str)) {
    handle_rejection(self, name, reply->str);
  } else {
    if (owned == self->options.final_commands.value && reply->type == REPLY_STRING)
      now->value = (struct reply){
          .type = REPLY_STRING, .str = memory_copy(reply->str, reply->len), .len = reply->len};
    if (now->answered == now->count + self->options.final_commands.first)
      now->end = now->text.length;
    if (now->answered < now->count + self->options.final_commands.count)
      send_handshake(self);
    else if (now->sent < now->text.length)
      lose_because(self, "an unexpected reply", CONNECTION_ERROR_NOT_REDIS);
    else
      end_handshake(self);
  }
}

/* --- the connection -------------------------------------------------------------------------- */

static void on_reply(void *owner, const struct reply *reply) {
  struct redis_connection *self = owner;
  if (self->state == REDIS_CONNECTION_READY && self->handshake.text.bytes == NULL)
    self->handler->reply(self->owner, reply);
  else if (endpoint_is_sentinel(&self->endpoint))
    handle_sentinel_reply(self, reply);
  else
    handle_handshake_reply(self, reply);
}

static void on_writable(void *owner) {
  struct redis_connection *self = owner;
  if (self->state == REDIS_CONNECTION_HANDSHAKING)
    send_handshake(self);
  else if (self->state == REDIS_CONNECTION_READY && self->handler->writable != NULL)
    self->handler->writable(self->owner);
}

static void on_dialed(void *owner, struct transport *transport, struct connection_error why) {
  struct redis_connection *self = owner;
  self->dialer = NULL;
  endpoint_name(&self->endpoint, self->server, sizeof self->server);
  if (transport == NULL) {
    lose(self, why);
    return;
  }
  redis_socket_open(&self->socket, transport);
  if (endpoint_is_sentinel(&self->endpoint))
    ask_sentinel(self, false);
  else
    begin_handshake(self);
}

static void dial(struct redis_connection *self) {
  const struct redis_address *to = endpoint_next(&self->endpoint);
  self->state = REDIS_CONNECTION_DIALING;
  if (endpoint_is_sentinel(&self->endpoint))
    loop_timer_start(self->timer, SENTINEL_MS);
  self->dialer = dialer_start(self->base, to, self->options.url->tls, on_dialed, self);
}

LOOP_CALLBACK(on_timer, struct redis_connection *self) {
  if (self->state == REDIS_CONNECTION_PAUSING)
    dial(self);
  else
    lose(self, redis_socket_timeout(&self->socket));
}

struct redis_connection *redis_connection_new(struct event_base *base, const struct log *log,
                                              const struct redis_connection_options *options,
                                              const struct redis_connection_handler *handler,
                                              void *owner) {
  static const struct redis_socket_handler redis_socket_handler = {
      .reply = on_reply, .writable = on_writable, .lost = lose};
  struct redis_connection *self = memory_allocate(sizeof *self);
  *self = (struct redis_connection){.log = log,
                                    .options = *options,
                                    .handler = handler,
                                    .owner = owner,
                                    .base = base,
                                    .endpoint.url = options->url};
  endpoint_name(&self->endpoint, self->server, sizeof self->server);
  (void)snprintf(self->name, sizeof self->name, "%s", options->name);
  redis_socket_init(&self->socket, base, options->largest_string, &redis_socket_handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void redis_connection_free(struct redis_connection *self) {
  redis_connection_stop(self);
  endpoint_release(&self->endpoint);
  event_free(self->timer);
  free(self);
}

bool redis_connection_start(struct redis_connection *self) {
  if (self->state == REDIS_CONNECTION_STOPPED)
    dial(self);
  return self->state == REDIS_CONNECTION_READY;
}

void redis_connection_stop(struct redis_connection *self) {
  self->round.rank = 0;
  self->state = REDIS_CONNECTION_STOPPED;
  (void)evtimer_del(self->timer);
  disconnect(self);
}

uint64_t redis_connection_reconnections(const struct redis_connection *self) {
  return self->connects > 0 ? self->connects - 1 : 0;
}

void redis_connection_error(const struct redis_connection *self, struct error *error) {
  if (self->last_error.text[0] == '\0')
    (void)error_set(error, "no answer from %s yet", self->server);
  else
    (void)error_set(error,
                    self->is_rejecting ? "%.100s refuses: %s" : "cannot connect to %.100s: %s",
                    self->server, self->last_error.text);
  error->code =
      self->last_error.text[0] == '\0' ? CONNECTION_ERROR_NO_ANSWER : self->last_error.code;
}

bool redis_connection_is_ready(const struct redis_connection *self) {
  return self->state == REDIS_CONNECTION_READY;
}

bool redis_connection_is_unreachable(const struct redis_connection *self) {
  return self->state == REDIS_CONNECTION_STOPPED ||
         (self->state != REDIS_CONNECTION_READY && self->attempts > 0);
}

size_t redis_connection_write(struct redis_connection *self, const struct iovec *pieces,
                              int count) {
  return self->state == REDIS_CONNECTION_READY ? redis_socket_write(&self->socket, pieces, count)
                                               : 0;
}

void redis_connection_send(struct redis_connection *self, const char *commands) {
  struct iovec piece = {.iov_base = (char *)(uintptr_t)commands, .iov_len = strlen(commands)};
  if (redis_connection_write(self, &piece, 1) < piece.iov_len)
    redis_connection_reconnect(self, "the socket accepts no more data");
}

void redis_connection_set_reply_timeout(struct redis_connection *self, int milliseconds_from_now) {
  if (self->state == REDIS_CONNECTION_READY)
    redis_socket_set_reply_timeout(&self->socket, milliseconds_from_now);
}

void redis_connection_reconnect(struct redis_connection *self, const char *why) {
  if (self->state == REDIS_CONNECTION_READY)
    lose_because(self, why, 0);
}

struct error_reply_text redis_connection_explain(const struct redis_connection *self,
                                                 const char *text) {
  return error_reply_explain(text, self->options.url);
}

bool redis_connection_recover(struct redis_connection *self, const char *text) {
  if (!error_reply_is_transient(text))
    return false;
  if (self->state == REDIS_CONNECTION_READY && !follow_redirect(self, text)) {
    self->is_rejecting = true;
    lose_because(self, redis_connection_explain(self, text).text, error_reply_code(text));
  }
  return true;
}

void redis_connection_mark_healthy(struct redis_connection *self) {
  endpoint_mark_healthy(&self->endpoint);
  self->pause_ms = 0;
  if (self->outage.since_ms == 0)
    return;
  bool was_logged = self->outage.logged_ms >= self->outage.since_ms;
  log_line(self->log, was_logged ? LOG_INFO : LOG_DEBUG, NULL,
           "redis %s: connected to %s again after %.1f s", self->options.role, self->server,
           (double)(self->ready_ms - self->outage.since_ms) / 1000);
  self->outage.since_ms = 0;
}
