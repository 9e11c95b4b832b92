/*
 * A window is one transaction:
 *
 *   MULTI
 *   … what is held …
 *   SET committed "<generation>:<nonce>:<number>"
 *   EXEC
 *   WATCH committed
 *   GET committed
 *
 * The last two commands are also what is asked first on a new connection: the number tells whether
 * a window whose answer was lost has arrived. It is the presence of this number that counts, so
 * that an emptied Redis is not taken for one that has everything. And since the key is watched from
 * before it is read, no transaction of an agent that has been superseded is executed, however late
 * it arrives.
 *
 * When much is held, the next window is sent ahead, up to its EXEC, which is withheld until this
 * one is answered: Redis has it in its queue by then and need not wait for us, and yet no window is
 * executed unless the one before it was.
 */
#include "agent/redis/delivery.h"

#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/loop_event.h"
#include "agent/redis/claim.h"
#include "agent/redis/command.h"
#include "agent/redis/link.h"
#include "agent/redis/permissions.h"
#include "agent/redis/request.h"
#include "wire/memory.h"
#include "wire/step.h"

/* The longest that Redis may take for an answer that is due, and how long nothing is asked at all:
   together they bound the time in which a dead connection is noticed. */
#define ANSWER_MS 11500
#define QUIET_MS 3000

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";

/* What answers are due for. */
enum waiting { NOTHING, LOOK, WINDOW, QUESTION };

#define LOOK_COMMANDS 2

struct delivery {
  struct delivery_options options;
  const struct delivery_handler *handler;
  void *owner;
  struct link *link;
  struct permissions permissions;
  struct event *quiet;
  struct hold *hold;
  struct claim claim;
  bool looked;    /* on this connection: what has arrived is known */
  bool claimed;   /* the first window was delivered */
  bool forgotten; /* said so, and nothing was delivered since */
  enum waiting waiting;
  struct request request; /* what is waited for */
  struct request ahead;   /* the window behind it, without its EXEC; empty: there is none */
  char *look;             /* WATCH and GET */
  char *set;              /* of the window */
  char *set_ahead;
  char *question;
  void (*answer)(void *owner, const redisReply *reply, bool whole);
  void *answer_owner;
};

static void next_request(struct delivery *self);

static void send_rest(struct delivery *self) {
  request_send(&self->request, self->link);
  if (request_is_sent(&self->request))
    request_send(&self->ahead, self->link);
}

static void start_request(struct delivery *self, enum waiting waiting) {
  self->waiting = waiting;
  (void)evtimer_del(self->quiet);
  link_expect(self->link, ANSWER_MS);
  send_rest(self);
}

static void add_look(struct delivery *self) {
  request_add(&self->request, self->look, strlen(self->look), LOOK_COMMANDS);
}

/* WATCH and GET, and the question, if there is one. */
static void send_look(struct delivery *self, const char *question) {
  request_init(&self->request);
  add_look(self);
  if (question != NULL)
    request_add(&self->request, question, strlen(question), 1);
  start_request(self, question != NULL ? QUESTION : LOOK);
}

/* Returns the command SET in it, to be freed when the request is over. */
static char *add_window(struct delivery *self, struct request *request,
                        const struct hold_window *window, uint64_t number) {
  char value[CLAIM_TEXT_SIZE], ttl[24];
  (void)claim_text(&self->claim, number, value);
  (void)snprintf(ttl, sizeof ttl, "%llu", self->options.key_ttl_seconds);
  const char *words[] = {"SET", self->options.keys->committed, value, "EX", ttl};
  char *set = command_new(words, self->options.key_ttl_seconds > 0 ? 5 : 3);
  request_init(request);
  request_add(request, multi, sizeof multi - 1, 1);
  for (int i = 0; window != NULL && i < window->count; i++)
    request_add(request, window->pieces[i].iov_base, window->pieces[i].iov_len,
                i == 0 ? window->commands : 0);
  request_add(request, set, strlen(set), 1);
  return set;
}

/* Before the job is claimed a window is empty: what is held must not arrive in another's job. */
static void send_window(struct delivery *self, const struct hold_window *window) {
  free(self->set);
  if (self->ahead.count > 0) {
    self->request = self->ahead;
    self->set = self->set_ahead;
    self->set_ahead = NULL;
    request_init(&self->ahead);
  } else {
    self->set = add_window(self, &self->request, window, self->claim.delivered + 1);
  }
  request_add_exec(&self->request, exec, sizeof exec - 1, 1);
  add_look(self);
  start_request(self, WINDOW);
}

static void send_ahead(struct delivery *self) {
  const struct hold_window *window;
  if (self->waiting != WINDOW || self->ahead.count > 0 || !self->claimed ||
      self->question != NULL || (window = hold_window_behind(self->hold)) == NULL)
    return;
  self->set_ahead = add_window(self, &self->ahead, window, self->claim.delivered + 2);
  send_rest(self);
}

/* Nothing is left that could be refused. */
static void be_quiet(struct delivery *self) {
  link_works(self->link);
  loop_timer_start(self->quiet, QUIET_MS);
}

static void next_request(struct delivery *self) {
  if (!link_is_up(self->link))
    return;
  const struct hold_window *window = NULL;
  if (self->waiting == NOTHING) {
    if (!self->looked)
      send_look(self, NULL);
    else if (self->question != NULL && self->claimed && self->ahead.count == 0)
      send_look(self, self->question);
    else if (!self->claimed || (window = hold_window(self->hold)) != NULL)
      send_window(self, window);
    else
      be_quiet(self);
  }
  send_ahead(self);
}

static void fail(struct delivery *self, const struct error *error) {
  link_stop(self->link);
  self->waiting = NOTHING;
  self->handler->failed(self->owner, error);
}

/* What was executed in part cannot be tried again, unlike the look behind it. */
static void on_refusal(struct delivery *self) {
  bool in_part = self->request.executed && self->request.refused < self->request.exec;
  if (!in_part && link_overcomes(self->link, self->request.refusal))
    return;
  struct error error;
  request_explain_refusal(&self->request, &error);
  fail(self, &error);
}

static enum claim_verdict judge(struct delivery *self, const redisReply *committed) {
  if (self->claim.generation > 0)
    return claim_judge(&self->claim, committed->str, committed->len);
  uint64_t nonce;
  evutil_secure_rng_get_bytes(&nonce, sizeof nonce);
  claim_init(&self->claim, nonce, committed->str, committed->len);
  return CLAIM_PENDING;
}

static void tell_taken(struct delivery *self) {
  struct error error;
  (void)error_set(&error, "another agent has taken over this job (%.150s)",
                  self->options.keys->committed);
  fail(self, &error);
}

/* What was lost is told first: what depends on what has arrived may depend on that too. */
static void tell(struct delivery *self, enum claim_verdict verdict, bool arrived) {
  if (arrived && !self->claimed) {
    self->claimed = true;
    self->handler->claimed(self->owner);
    return;
  }
  if (verdict == CLAIM_FORGOTTEN && !self->forgotten) {
    self->forgotten = true;
    self->handler->forgotten(self->owner);
  }
  if (arrived) {
    next_request(self); /* Redis works on while the owner makes use of the room */
    self->handler->delivered(self->owner);
  }
}

/* What the key says when a window, or a look after it, has been answered. Whoever it names now owns
   the job, whatever arrived before: what the owner hears would make it send more. */
static void on_committed(struct delivery *self, const redisReply *reply) {
  if (self->request.executed)
    self->claim.delivered++;
  enum claim_verdict verdict = judge(self, reply);
  if (verdict == CLAIM_DELIVERED)
    self->claim.delivered++;
  bool arrived = self->request.executed || verdict == CLAIM_DELIVERED;
  self->waiting = NOTHING;
  self->looked = true;
  if (arrived) {
    self->forgotten = false;
    link_works(self->link);
    if (self->claimed)
      hold_delivered(self->hold);
  }
  if (verdict == CLAIM_TAKEN) {
    tell_taken(self);
    return;
  }
  if (!arrived && self->ahead.count > 0)
    link_drop(self->link, "somebody else wrote what this agent watches");
  tell(self, verdict, arrived);
}

/* In front of a question: Redis may have gone back, or the job to another, with this connection
   still there. No window is under way that could have arrived. */
static void on_look(struct delivery *self, const redisReply *reply) {
  enum claim_verdict verdict = judge(self, reply);
  if (verdict == CLAIM_TAKEN)
    tell_taken(self);
  else
    tell(self, verdict, false);
}

/* Until the owner has returned this is still the request: the next question follows this one, with
   no window between them. */
static void on_answer(struct delivery *self, const redisReply *reply) {
  char *question = self->question;
  self->question = NULL;
  link_works(self->link);
  self->answer(self->answer_owner, reply, !link_reply_too_large(self->link));
  self->waiting = NOTHING;
  free(question);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  bool last = self->waiting != NOTHING && request_take(&self->request, reply);
  if (self->waiting == NOTHING || (last && !request_is_sent(&self->request))) {
    link_drop(self->link, "an answer nobody asked for");
    return;
  }
  bool clean = self->request.refusal[0] == '\0';
  if (self->waiting == QUESTION && self->request.answered == LOOK_COMMANDS && clean)
    on_look(self, reply);
  if (!last)
    return;
  link_expect(self->link, 0);
  if (!clean)
    on_refusal(self);
  else if (self->waiting == QUESTION)
    on_answer(self, reply);
  else
    on_committed(self, reply);
  next_request(self);
}

static void forget_ahead(struct delivery *self) {
  free(self->set_ahead);
  self->set_ahead = NULL;
  request_init(&self->ahead);
}

static void on_up(void *owner) {
  struct delivery *self = owner;
  self->looked = false;
  self->waiting = NOTHING;
  next_request(self);
}

static void on_down(void *owner) {
  struct delivery *self = owner;
  self->waiting = NOTHING;
  forget_ahead(self);
  (void)evtimer_del(self->quiet);
}

static void on_writable(void *owner) {
  struct delivery *self = owner;
  send_rest(self);
}

static void on_unreachable(void *owner) {
  struct delivery *self = owner;
  self->handler->unreachable(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct delivery *self = owner;
  self->handler->failed(self->owner, error);
}

static void on_quiet(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct delivery *self = context;
  self->looked = false;
  next_request(self);
}

struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, struct hold *hold,
                              const struct delivery_handler *handler, void *owner) {
  static const struct link_handler link_handler = {.up = on_up,
                                                   .reply = on_reply,
                                                   .writable = on_writable,
                                                   .down = on_down,
                                                   .unreachable = on_unreachable,
                                                   .failed = on_failed};
  struct delivery *self = memory_allocate(sizeof *self);
  *self = (struct delivery){.options = *options, .handler = handler, .owner = owner, .hold = hold};
  char *watch = command_new((const char *[]){"WATCH", options->keys->committed}, 2);
  char *get = command_new((const char *[]){"GET", options->keys->committed}, 2);
  if (asprintf(&self->look, "%s%s", watch, get) < 0)
    memory_exhausted("a command");
  free(watch);
  free(get);
  permissions_init(&self->permissions, options->keys);
  struct link_options link_options = {.url = options->url,
                                      .role = "outbox",
                                      .name = options->name,
                                      .probe = permissions_probe(&self->permissions),
                                      .terse = true,
                                      .largest_string = STEP_PAYLOAD_MAX};
  self->link = link_new(base, log, &link_options, &link_handler, self);
  self->quiet = loop_timer_new(base, on_quiet, self);
  return self;
}

void delivery_free(struct delivery *self) {
  link_free(self->link);
  event_free(self->quiet);
  permissions_release(&self->permissions);
  free(self->look);
  free(self->set);
  free(self->set_ahead);
  free(self->question);
  free(self);
}

void delivery_start(struct delivery *self) {
  link_start(self->link);
}

void delivery_go(struct delivery *self) {
  next_request(self);
}

void delivery_ask(struct delivery *self, char *command,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  free(self->question);
  self->question = command;
  self->answer = answer;
  self->answer_owner = owner;
  next_request(self);
}

bool delivery_had_owner(const struct delivery *self) {
  return self->claim.generation > 1;
}

bool delivery_is_gone(const struct delivery *self) {
  return link_is_gone(self->link);
}
