/*
 * What is held leaves in windows (pipeline.h), each of which writes "<generation>:<nonce>:<number>"
 * to the key `committed`. Every window, and each login (permissions.h), ends with WATCH and GET of
 * that key: the number tells whether a window whose answer was lost has arrived. It is the presence
 * of this number that counts, so that an emptied Redis is not taken for one that has everything.
 * And since the key is watched from before it is read, no transaction of an agent that has been
 * superseded is executed, however late it arrives.
 */
#include "agent/redis/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/claim.h"
#include "agent/redis/link.h"
#include "agent/redis/permissions.h"
#include "agent/redis/pipeline.h"
#include "agent/redis/question.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "wire/step.h"

/* The longest that Redis may take for an answer that is due, and how long nothing is asked at all.
   Of a Redis that is dead the heartbeat tells within 4 s; on its own this looks only for what has
   happened to this connection alone, and less often than the supply asks when nothing comes. */
#define ANSWER_MS 10900
#define QUIET_MS 12000

struct delivery {
  const struct keys *keys;
  const struct delivery_handler *handler;
  void *owner;
  struct link *link;
  struct permissions permissions;
  struct event *quiet;
  struct hold *hold;
  struct claim claim;
  bool looked;    /* on this connection: what has arrived is known */
  bool forgotten; /* said so, and nothing was delivered since */
  struct pipeline pipeline;
  struct question question;
  char *with_claim; /* what the owner does with the claim; NULL: nothing */
};

static void start(struct delivery *self) {
  (void)evtimer_del(self->quiet);
  link_expect(self->link, ANSWER_MS);
  pipeline_send(&self->pipeline, self->link);
}

static void send_look(struct delivery *self, const struct question *question) {
  pipeline_look(&self->pipeline, question);
  start(self);
}

static void open_window(struct delivery *self, const struct hold_window *window, uint64_t number) {
  char value[CLAIM_TEXT_SIZE];
  (void)claim_text(&self->claim, number, value);
  pipeline_open(&self->pipeline, window, value);
}

static void send_window(struct delivery *self, const struct hold_window *window) {
  if (!pipeline_is_open(&self->pipeline))
    open_window(self, window, self->claim.delivered + 1);
  pipeline_execute(&self->pipeline, NULL);
  start(self);
}

/* A window without what is held, which must not arrive in another's job. The question that waits
   for it goes with it. */
static void send_claim(struct delivery *self) {
  struct hold_window window = {0};
  free(self->with_claim);
  self->with_claim = self->handler->claiming != NULL ? self->handler->claiming(self->owner) : NULL;
  if (self->with_claim != NULL)
    window = (struct hold_window){
        .pieces = {{.iov_base = self->with_claim, .iov_len = strlen(self->with_claim)}},
        .count = 1,
        .commands = 1};
  open_window(self, &window, self->claim.delivered + 1);
  pipeline_execute(&self->pipeline, &self->question);
  start(self);
}

/* When much is held. */
static void send_ahead(struct delivery *self) {
  const struct hold_window *window;
  if (!pipeline_has_room(&self->pipeline) || !claim_is_made(&self->claim) ||
      self->question.commands != NULL || (window = hold_window_behind(self->hold)) == NULL)
    return;
  open_window(self, window, self->claim.delivered + 2);
  pipeline_send(&self->pipeline, self->link);
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
  if (!self->pipeline.is_busy) {
    if (!self->looked)
      send_look(self, NULL);
    else if (!claim_is_made(&self->claim))
      send_claim(self);
    else if (self->question.commands != NULL && !pipeline_is_open(&self->pipeline))
      send_look(self, &self->question);
    else if ((window = hold_window(self->hold)) != NULL)
      send_window(self, window);
    else
      be_quiet(self);
  }
  send_ahead(self);
}

static void fail(struct delivery *self, const struct error *error) {
  link_stop(self->link);
  self->handler->failed(self->owner, error);
}

/* What was executed in part cannot be tried again, unlike the look behind it. */
static void on_refusal(struct delivery *self) {
  const struct request *request = &self->pipeline.now;
  bool in_part = request->executed && request->refused < request->exec;
  if (!in_part && link_overcomes(self->link, request->refusal))
    return;
  struct error error;
  request_explain_refusal(request, &error);
  fail(self, &error);
}

static void tell_taken(struct delivery *self) {
  struct error error;
  (void)error_set(&error, "another agent has taken over this job (%.150s)", self->keys->committed);
  fail(self, &error);
}

/* What was lost is told first: what depends on what has arrived may depend on that too. */
static void tell(struct delivery *self, const struct claim_news *news) {
  if (news->forgotten && !self->forgotten) {
    self->forgotten = true;
    self->handler->forgotten(self->owner);
  }
  if (news->arrived) {
    next_request(self); /* Redis works on while the owner makes use of the room */
    self->handler->delivered(self->owner);
  }
}

/* What the key says when a window, or a look, has been answered; Redis may have gone back, or the
   job to another, with this connection still there. Whoever it names now owns the job, whatever
   arrived before: what the owner hears would make it send more. */
static void on_committed(struct delivery *self, const redisReply *reply) {
  bool was_claimed = claim_is_made(&self->claim);
  struct claim_news news =
      claim_see(&self->claim, self->pipeline.now.executed, reply->str, reply->len);
  pipeline_settle(&self->pipeline);
  self->looked = true;
  if (news.arrived) {
    self->forgotten = false;
    link_works(self->link);
    if (was_claimed)
      hold_delivered(self->hold);
  }
  if (news.taken) {
    tell_taken(self);
    return;
  }
  if (!news.arrived && pipeline_is_open(&self->pipeline))
    link_renew(self->link); /* without what stands open on it */
  if (news.arrived && !was_claimed)
    self->handler->claimed(self->owner);
  else
    tell(self, &news);
}

/* Until the owner has returned this is still the request: the next question follows this one, with
   no window between them. What was asked together with a claim that failed is asked again. */
static void on_answer(struct delivery *self, const redisReply *reply) {
  if (claim_is_made(&self->claim)) {
    link_works(self->link);
    question_take(&self->question, reply, !link_reply_too_large(self->link));
  }
  pipeline_settle(&self->pipeline);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  bool last;
  enum pipeline_answer answer = pipeline_take(&self->pipeline, reply, &last);
  if (answer == PIPELINE_UNASKED) {
    link_drop(self->link, "an answer nobody asked for");
    return;
  }
  if (last)
    link_expect(self->link, 0);
  if (answer == PIPELINE_COMMITTED)
    on_committed(self, reply);
  else if (answer == PIPELINE_ANSWER)
    on_answer(self, reply);
  else if (answer == PIPELINE_REFUSED)
    on_refusal(self);
  if (last)
    next_request(self);
}

static void on_reached(void *owner) {
  struct delivery *self = owner;
  self->handler->reached(self->owner);
}

static void on_up(void *owner, const redisReply *committed) {
  struct delivery *self = owner;
  on_committed(self, committed);
  next_request(self);
}

static void on_down(void *owner) {
  struct delivery *self = owner;
  pipeline_lose(&self->pipeline);
  (void)evtimer_del(self->quiet);
}

static void on_writable(void *owner) {
  struct delivery *self = owner;
  pipeline_send(&self->pipeline, self->link);
}

static void on_unreachable(void *owner) {
  struct delivery *self = owner;
  self->handler->unreachable(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct delivery *self = owner;
  self->handler->failed(self->owner, error);
}

void delivery_look(struct delivery *self) {
  if (self->pipeline.is_busy)
    return;
  self->looked = false;
  next_request(self);
}

bool delivery_is_ours(struct delivery *self, const char *committed, size_t length) {
  if (claim_is_unchanged(&self->claim, committed, length))
    return true;
  enum claim_verdict outcome_result = claim_judge(&self->claim, committed, length);
  if (outcome_result != CLAIM_PENDING)
    delivery_look(self);
  return outcome_result != CLAIM_TAKEN;
}

static void on_quiet(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  delivery_look(context);
}

struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, struct hold *hold,
                              const struct delivery_handler *handler, void *owner) {
  static const struct link_handler link_handler = {.reached = on_reached,
                                                   .up = on_up,
                                                   .reply = on_reply,
                                                   .writable = on_writable,
                                                   .down = on_down,
                                                   .unreachable = on_unreachable,
                                                   .failed = on_failed};
  struct delivery *self = memory_allocate(sizeof *self);
  *self =
      (struct delivery){.keys = options->keys, .handler = handler, .owner = owner, .hold = hold};
  claim_init(&self->claim, random_u64());
  pipeline_init(&self->pipeline, options->keys, options->key_ttl_seconds);
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
  pipeline_release(&self->pipeline);
  question_release(&self->question);
  free(self->with_claim);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)link_start(self->link);
}

void delivery_go(struct delivery *self) {
  next_request(self);
}

void delivery_ask(struct delivery *self, char *commands,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  question_put(&self->question, commands, answer, owner);
  next_request(self);
}

bool delivery_is_claimed(const struct delivery *self) {
  return claim_is_made(&self->claim);
}

bool delivery_had_owner(const struct delivery *self) {
  return self->claim.generation > 1;
}

bool delivery_is_gone(const struct delivery *self) {
  return link_is_gone(self->link);
}
