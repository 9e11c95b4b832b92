/*
 * Every failure goes through lose(), which closes the connection and either pauses or gives up; a
 * redirection goes through redial(). The owner may call any function inside a callback, so a
 * callback is the last thing that a function does.
 */
#include "agent/frontends/redis/connection/redis_connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/endpoint.h"
#include "agent/frontends/redis/connection/redis_socket.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* From the connected socket to the last reply of the handshake. */
#define HANDSHAKE_MS 5000

/* The most commands of the login, and the most words of each. */
#define LOGIN_COMMANDS 4
#define LOGIN_WORDS 3

static const char set_name[] = "CLIENT SETNAME";
static const char role[] = "ROLE";

struct handshake {
  char *text; /* the encoded commands of the login, with the password, and of the owner */
  size_t length;
  const char *names[LOGIN_COMMANDS]; /* of the commands of the login, for people */
  int count;                         /* of these */
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

struct outage {
  enum { NO_OUTAGE, OUTAGE, LOGGED_OUTAGE } state;
  char reason[REASON_SIZE]; /* the last one that was logged */
  int64_t logged_ms;        /* when that was; 0: never */
  int64_t since_ms;
};

struct redis_connection {
  const struct log *log;
  struct redis_connection_options options;
  const struct redis_connection_handler *handler;
  void *owner;
  char server[256]; /* for people */
  char name[128];   /* for CLIENT LIST */
  enum redis_connection_state state;
  struct event *timer;        /* of the pause and the handshake */
  struct endpoint *endpoint;  /* busy while REDIS_CONNECTION_DIALING */
  struct redis_socket socket; /* open from REDIS_CONNECTION_HANDSHAKING on */
  struct handshake handshake;
  bool is_preparing; /* redis_connection_start has not been called yet */
  bool is_rejecting; /* `last_error` is an error reply */
  uint64_t connects; /* how many times it was ready */
  unsigned attempts; /* that have failed since it was ready last */
  int64_t ready_ms;  /* when it was ready last, monotonic */
  int pause_ms;      /* the next pause, before chance; 0: the shortest */
  struct outage outage;
  struct reason last_error;
  /* The first failure of this round, if the URL has several hosts. A host that is a replica does
     not count. */
  struct reason host_error;
  char failed_host[256];
};

static void release_handshake(struct handshake *self) {
  if (self->text != NULL)
    explicit_bzero(self->text, self->length);
  free(self->text);
  free(self->value.str);
  *self = (struct handshake){0};
}

static void disconnect(struct redis_connection *self) {
  endpoint_cancel(self->endpoint);
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
  bool is_ongoing = self->state != NO_OUTAGE;
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
  if (self->state == NO_OUTAGE)
    self->since_ms = now_ms;
  if (self->state != LOGGED_OUTAGE)
    self->state = is_new ? LOGGED_OUTAGE : OUTAGE;
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

static void try_next_host(struct redis_connection *self, const char *why, int code) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: cannot connect to %s: %s; the next host follows",
           self->options.role, self->server, why);
  if (self->host_error.text[0] == '\0' && code != CONNECTION_ERROR_REPLICA) {
    memcpy(self->failed_host, self->server, sizeof self->server);
    set_reason(&self->host_error, why, code);
  }
  self->state = REDIS_CONNECTION_PAUSING;
  loop_timer_start_now(self->timer);
}

/* Every host has failed: the first failure says more than that the last host is a replica. */
static void use_host_error(struct redis_connection *self) {
  if (self->host_error.text[0] == '\0')
    return;
  memcpy(self->server, self->failed_host, sizeof self->server);
  self->last_error = self->host_error;
  self->host_error.text[0] = '\0';
}

/* Handles the loss of the connection, or of the attempt to make one. */
static void lose(struct redis_connection *self, struct connection_error reason,
                 bool is_error_reply) {
  if (self->is_preparing) {
    redis_connection_stop(self);
    return;
  }
  bool was_ready = self->state == REDIS_CONNECTION_READY;
  char why[REASON_SIZE]; /* a copy: disconnect() may free the reason */
  (void)snprintf(why, sizeof why, "%s", reason.text);
  disconnect(self);
  if (!was_ready && endpoint_has_untried(self->endpoint)) {
    try_next_host(self, why, reason.code);
    return;
  }
  set_reason(&self->last_error, why, reason.code);
  self->is_rejecting = was_ready && is_error_reply;
  if (was_ready) {
    log_line(self->log, note_failure(&self->outage, why, is_error_reply, clock_monotonic_ms()),
             NULL,
             is_error_reply ? "redis %s: %s refuses for now: %s; reconnecting"
                            : "redis %s: connection to %s lost: %s; reconnecting",
             self->options.role, self->server, why);
  } else {
    use_host_error(self);
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
  lose(self, (struct connection_error){text, code}, false);
}

static void on_lost(void *owner, struct connection_error reason) {
  lose(owner, reason, false);
}

/* Reconnects at once. This is not a failure. */
static void redial(struct redis_connection *self) {
  bool was_ready = self->state == REDIS_CONNECTION_READY;
  disconnect(self);
  self->host_error.text[0] = '\0';
  self->state = REDIS_CONNECTION_PAUSING;
  loop_timer_start_now(self->timer);
  if (was_ready && self->handler->disconnected != NULL)
    self->handler->disconnected(self->owner);
}

/* Follows a redirection to another node of a cluster. Returns false if the error reply is not one,
   or after too many in a row. */
static bool follow_redirect(struct redis_connection *self, const char *text) {
  const char *target = error_reply_redirect(text);
  if (target == NULL || !endpoint_redirect(self->endpoint, target))
    return false;
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: redirected to %s", self->options.role, target);
  redial(self);
  return true;
}

static void become_ready(struct redis_connection *self) {
  self->host_error.text[0] = '\0';
  self->state = REDIS_CONNECTION_READY;
  self->attempts = 0;
  self->ready_ms = clock_monotonic_ms();
  if (self->connects++ == 0)
    self->pause_ms = 0;
}

/* --- the handshake --------------------------------------------------------------------------- */

/* Returns the end of the first `count` commands, and the first words of the last of them. */
static const char *skip_commands(const struct handshake *self, int count,
                                 struct command_word words[2]) {
  const char *at = self->text;
  for (int i = 0; i < count; i++)
    (void)command_read(&at, self->text + self->length, words, 2);
  return at;
}

static void send_handshake(struct redis_connection *self) {
  const struct handshake_commands *final_commands = &self->options.final_commands;
  struct handshake *now = &self->handshake;
  struct command_word words[2];
  size_t end = now->length;
  if (final_commands->first > 0 && now->answered < now->count + final_commands->first)
    end = (size_t)(skip_commands(now, now->count + final_commands->first, words) - now->text);
  struct iovec rest = {.iov_base = now->text + now->sent, .iov_len = end - now->sent};
  if (rest.iov_len > 0)
    now->sent += redis_socket_write(&self->socket, &rest, 1);
}

static void leave_handshake(struct redis_connection *self, const struct reply *value) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: connected to %s", self->options.role,
           self->server);
  self->socket.parser.discard_values = self->options.discard_values;
  self->socket.parser.keep_memory = self->options.keep_memory;
  if (self->is_preparing) {
    self->state = REDIS_CONNECTION_PREPARED;
  } else {
    become_ready(self);
    self->handler->ready(self->owner, value);
  }
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
         self->options.final_commands.count == 0 && now->sent == now->length;
}

/* The text is measured, allocated and written once, so no copy of the password is left behind. */
static void begin_handshake(struct redis_connection *self) {
  static const char *const names[] = {"AUTH", set_name, "SELECT", role};
  const struct redis_url *url = self->options.url;
  const struct handshake_commands *final_commands = &self->options.final_commands;
  struct handshake *now = &self->handshake;
  char database[16];
  (void)snprintf(database, sizeof database, "%u", url->database);
  bool has_user = url->user != NULL;
  const char *const all[][LOGIN_WORDS] = {
      {"AUTH", has_user ? url->user : url->password, has_user ? url->password : NULL},
      {"CLIENT", "SETNAME", self->name},
      {"SELECT", database},
      {role}};
  const bool wanted[] = {url->password != NULL, true, url->database != 0,
                         url->master != NULL || url->host_count > 1};
  struct command_word words[LOGIN_COMMANDS][LOGIN_WORDS];
  size_t counts[LOGIN_COMMANDS] = {0};
  *now = (struct handshake){.length = final_commands->length, .value.type = REPLY_NIL};
  for (size_t i = 0; i < LOGIN_COMMANDS; i++) {
    size_t *count = &counts[now->count];
    if (!wanted[i])
      continue;
    for (; *count < LOGIN_WORDS && all[i][*count] != NULL; ++*count)
      words[now->count][*count] = command_word(all[i][*count]);
    now->length += command_length(words[now->count], *count);
    now->names[now->count++] = names[i];
  }
  char *out = now->text = memory_allocate(now->length);
  for (int i = 0; i < now->count; i++)
    out = command_write(out, words[i], counts[i]);
  if (final_commands->length > 0)
    memcpy(out, final_commands->text, final_commands->length);
  self->state = REDIS_CONNECTION_HANDSHAKING;
  loop_timer_start(self->timer, HANDSHAKE_MS);
  send_handshake(self);
  if (may_leave_early(self))
    leave_handshake(self, &now->value);
}

/* Sentinels name the former master until they have all learned of the new one. */
static bool is_replica(const struct reply *reply) {
  return reply->type == REPLY_ARRAY && reply->elements > 0 &&
         reply->element[0]->type == REPLY_STRING && strcmp(reply->element[0]->str, "master") != 0;
}

/* Names the missing ACL rule. The server does not name the key. The command that it names is
   repeated only if it was sent, because it could be the password. */
static void explain_denial(const char *text, const char *command, struct error_reply_text *why) {
  static const char before_command[] = "permissions to run the '";
  const char *named = strstr(text, before_command), *key = strchr(command, ' ');
  size_t length = strcspn(command, " ");
  if (named != NULL) {
    named += sizeof before_command - 1;
    if (strncasecmp(named, command, length) == 0 && named[length] == '\'')
      (void)snprintf(why->text, sizeof why->text, "NOPERM: the user needs +%.*s", (int)length,
                     named);
  } else if (key != NULL && strstr(text, " key") != NULL) {
    (void)snprintf(why->text, sizeof why->text, "NOPERM: the user needs ~%s", key + 1);
  }
}

/* The connection's name is optional: an old server, a narrow ACL or an unusual job id must not stop
   the agent. NOAUTH and DENIED (protected mode) are not about the name. Without the permission for
   ROLE, the first write tells whether the server is the master. */
static bool may_be_rejected(const struct redis_connection *self, const char *name, int owned,
                            const char *text) {
  bool is_denied = strncmp(text, "NOPERM", 6) == 0;
  if (name == set_name)
    return is_denied || (strncmp(text, "ERR ", 4) == 0 && !error_reply_is_transient(text));
  bool is_multi_key = owned >= 0 && owned < self->options.final_commands.multi_key;
  return is_denied && (name == role || is_multi_key);
}

/* `name` is NULL for a command of the owner, which is named with its key. */
static void handle_rejection(struct redis_connection *self, const char *name, const char *text) {
  struct error_reply_text why = redis_connection_explain(self, text);
  if (error_reply_is_transient(text)) {
    if (!follow_redirect(self, text))
      lose_because(self, why.text, error_reply_code(text));
    return;
  }
  char command[128];
  struct command_word words[2] = {{.text = ""}, {.text = ""}};
  if (name != NULL)
    words[0] = command_word(name);
  else
    (void)skip_commands(&self->handshake, self->handshake.answered, words);
  (void)snprintf(command, sizeof command, "%.*s%s%.*s", (int)words[0].length, words[0].text,
                 words[1].length > 0 ? " " : "", (int)words[1].length,
                 words[1].length > 0 ? words[1].text : "");
  if (strncmp(text, "NOPERM", 6) == 0)
    explain_denial(text, command, &why);
  struct error error;
  bool preparing = self->is_preparing;
  (void)error_set(&error, "redis at %.60s refuses %.80s: %.120s", self->server, command, why.text);
  error.code = error_reply_code(text);
  redis_connection_stop(self);
  if (!preparing)
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
    (void)snprintf(why, sizeof why, "the answer to %s is none of redis", name);
    lose_because(self, why, CONNECTION_ERROR_NOT_REDIS);
  } else if (reply->type == REPLY_ERROR && !may_be_rejected(self, name, owned, reply->str)) {
    handle_rejection(self, name, reply->str);
  } else {
    if (owned == self->options.final_commands.value && reply->type == REPLY_STRING)
      now->value = (struct reply){
          .type = REPLY_STRING, .str = memory_copy(reply->str, reply->len), .len = reply->len};
    if (now->answered < now->count + self->options.final_commands.count)
      send_handshake(self);
    else if (now->sent < now->length)
      lose_because(self, "a reply to no request", CONNECTION_ERROR_NOT_REDIS);
    else
      end_handshake(self);
  }
}

/* --- the connection -------------------------------------------------------------------------- */

static void on_reply(void *owner, const struct reply *reply) {
  struct redis_connection *self = owner;
  if (self->state == REDIS_CONNECTION_PREPARED)
    lose_because(self, "unexpected reply", CONNECTION_ERROR_NOT_REDIS);
  else if (self->state == REDIS_CONNECTION_READY && self->handshake.text == NULL)
    self->handler->reply(self->owner, reply);
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
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  if (transport == NULL) {
    lose(self, why, false);
    return;
  }
  redis_socket_open(&self->socket, transport);
  begin_handshake(self);
  if (self->handler->connected != NULL)
    self->handler->connected(self->owner);
}

static void dial(struct redis_connection *self) {
  self->state = REDIS_CONNECTION_DIALING;
  endpoint_dial(self->endpoint, on_dialed, self);
}

LOOP_CALLBACK(on_timer, struct redis_connection *self) {
  if (self->state == REDIS_CONNECTION_PAUSING)
    dial(self);
  else
    lose(self, redis_socket_timeout(&self->socket), false);
}

static size_t shortest_limit(void) {
  return REPLY_PARSER_BEGINNING;
}

struct redis_connection *redis_connection_new(struct event_base *base, const struct log *log,
                                              const struct redis_connection_options *options,
                                              const struct redis_connection_handler *handler,
                                              void *owner) {
  static const struct redis_socket_handler redis_socket_handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct redis_connection *self = memory_allocate(sizeof *self);
  *self = (struct redis_connection){.log = log,
                                    .options = *options,
                                    .handler = handler,
                                    .owner = owner,
                                    .endpoint = endpoint_new(base, options->url)};
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  (void)snprintf(self->name, sizeof self->name, "%s", options->name);
  redis_socket_init(&self->socket, base,
                    options->largest_string != NULL ? options->largest_string : shortest_limit,
                    &redis_socket_handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void redis_connection_free(struct redis_connection *self) {
  redis_connection_stop(self);
  endpoint_free(self->endpoint);
  event_free(self->timer);
  free(self);
}

void redis_connection_prepare(struct redis_connection *self) {
  if (self->state != REDIS_CONNECTION_STOPPED)
    return;
  self->is_preparing = true;
  dial(self);
}

bool redis_connection_start(struct redis_connection *self) {
  self->is_preparing = false;
  if (self->state == REDIS_CONNECTION_STOPPED)
    dial(self);
  else if (self->state == REDIS_CONNECTION_PREPARED)
    become_ready(self);
  return self->state == REDIS_CONNECTION_READY;
}

void redis_connection_stop(struct redis_connection *self) {
  self->host_error.text[0] = '\0';
  self->state = REDIS_CONNECTION_STOPPED;
  self->is_preparing = false;
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
    redis_connection_reconnect(self, "the socket takes no more");
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
  if (self->state == REDIS_CONNECTION_READY && !follow_redirect(self, text))
    lose(self,
         (struct connection_error){redis_connection_explain(self, text).text,
                                   error_reply_code(text)},
         true);
  return true;
}

void redis_connection_mark_healthy(struct redis_connection *self) {
  endpoint_mark_healthy(self->endpoint);
  self->pause_ms = 0;
  if (self->outage.state == NO_OUTAGE)
    return;
  log_line(self->log, self->outage.state == LOGGED_OUTAGE ? LOG_INFO : LOG_DEBUG, NULL,
           "redis %s: connected to %s again after %.1f s", self->options.role, self->server,
           (double)(self->ready_ms - self->outage.since_ms) / 1000);
  self->outage.state = NO_OUTAGE;
}

bool redis_connection_reply_is_truncated(const struct redis_connection *self) {
  return self->socket.is_truncated;
}
