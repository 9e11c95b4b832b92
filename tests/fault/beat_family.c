/* The heartbeat's connection breaks in one of five ways. Meanwhile its agent continues, is killed,
   is superseded, or is superseded while it is stopped. */

#include "tests/fault/family.h"
#include "tests/test.h"

/* From the protocol: SET every 2 s, a time to live of 10 s, and a superseded agent notices within
   4 s. */
enum { PERIOD_MS = 2000, LIFE_MS = 10000, LEARN_MS = 4000 };

/* The tolerance on a busy machine. */
enum { LATE_MS = 2000 };

/* How many SETs are lost on a silent connection before it is closed. */
enum { SILENT_BEATS = 3 };

/* The time from connecting to the break, at most one period, and the duration of a standstill. */
enum { MOMENTS_MS = PERIOD_MS, STILL_MS = 5000 };

/* The delay until something happens to the agent, and how long it is stopped. */
enum { THEN_MS = 500, SLEEP_MS = 1000 };

enum break_kind { CUT_REQUEST, CUT_REPLY, SWALLOW_REPLY, DEAFEN, FREEZE, BREAKS };
enum then { GOES_ON, IS_KILLED, IS_SUPERSEDED, SLEEPS, THENS };

/* The seed selects one combination. Successive seeds go through all of them. */
struct scene {
  struct trial *trial;
  enum break_kind breaks;
  enum then then;
  int64_t thaw_ms;             /* 0: nothing is frozen */
  struct agent_process *first; /* the superseded agent; NULL: none */
  int64_t silent_ms;           /* after this time it may not set the key */
  bool seen;                   /* a heartbeat was seen */
  bool short_lived;            /* it was reported that the key expires too soon */
  bool haunted;                /* it was reported that `first` has set the key */
  int pid;                     /* of the agent that has set the key last, at `ts` */
  long long ts;
  long long mended_ts; /* a later heartbeat is new */
};

static long long unix_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns the shortest time to live that the key may have. */
static long long least_left(const struct scene *self) {
  bool silent = self->breaks == DEAFEN || self->breaks == FREEZE;
  return LIFE_MS - (silent ? SILENT_BEATS : 1) * PERIOD_MS - LATE_MS;
}

static void read_beat(struct scene *self) {
  struct job *job = self->trial->job;
  redisReply *reply = redisCommand(job->redis, "GET sandbox:%s:heartbeat", job->id);
  assert_non_null(reply);
  if (reply->type == REDIS_REPLY_STRING &&
      sscanf(reply->str, "{\"Ts\":%lld,\"Pid\":%d,\"StepInFlight\":", &self->ts, &self->pid) != 2)
    tally_find(self->trial->tally, TALLY_WRONG, 1, "no heartbeat: %.100s", reply->str);
  freeReplyObject(reply);
}

/* Checks the heartbeat. Always returns false, so that the wait continues. */
static bool glance(void *context) {
  struct scene *self = context;
  struct tally *tally = self->trial->tally;
  long long left = trial_command(self->trial, "PTTL sandbox:%s:heartbeat", self->trial->job->id);
  self->seen |= left >= 0;
  if (self->seen && left < least_left(self) && !self->short_lived) {
    self->short_lived = true;
    tally_find(tally, TALLY_WRONG, 1, "the heartbeat has %lld ms to live", left);
  }
  read_beat(self);
  if (self->first != NULL && self->silent_ms > 0 && wait_now_ms() > self->silent_ms &&
      self->pid == agent_process_pid(self->first) && !self->haunted) {
    self->haunted = true;
    tally_find(tally, TALLY_WRONG, 1, "the superseded agent still beats");
  }
  return false;
}

static void let_pass(struct scene *self, long milliseconds) {
  (void)wait_until(glance, self, milliseconds);
}

static bool is_broken(void *context) {
  const struct scene *self = context;
  (void)glance(context);
  return proxy_cuts(self->trial->proxy) > 0;
}

static bool is_connected(void *context) {
  const struct scene *self = context;
  (void)glance(context);
  return proxy_connections(self->trial->proxy, RELAY_HEARTBEAT) > 0;
}

static bool is_there(void *context) {
  const struct scene *self = context;
  (void)glance(context);
  return self->seen && self->pid == agent_process_pid(self->trial->job->agent);
}

static bool is_back(void *context) {
  const struct scene *self = context;
  return is_there(context) && self->ts > self->mended_ts;
}

static bool has_left(void *context) {
  struct scene *self = context;
  (void)glance(context);
  return !agent_process_is_running(self->first);
}

static void await(struct scene *self, bool (*condition)(void *context), const char *otherwise) {
  if (!wait_until(condition, self, WAIT_BOUND_MS))
    tally_find(self->trial->tally, TALLY_WRONG, 1, "%s", otherwise);
}

/* The cut is in the login or the first two SETs. The next connection may be cut in its login,
   too. */
static void plan_cut(struct scene *self, struct proxy_plan *plan) {
  static const long reach[RELAY_DIRECTIONS] = {[RELAY_REQUEST] = 500, [RELAY_REPLY] = 100};
  struct relay_fault *faults = plan->faults[RELAY_HEARTBEAT];
  struct trial *trial = self->trial;
  enum relay_direction direction = self->breaks == CUT_REQUEST ? RELAY_REQUEST : RELAY_REPLY;
  long most = trial_reach(trial, direction, reach[direction]);
  faults[0] = (struct relay_fault){.direction = direction,
                                   .byte = 1 + trial_random(trial, most),
                                   .swallow = self->breaks == SWALLOW_REPLY};
  most = trial_reach(trial, RELAY_REQUEST, reach[RELAY_REPLY]);
  if (trial_random(trial, 2) == 0)
    faults[1] =
        (struct relay_fault){.direction = RELAY_REQUEST, .byte = 1 + trial_random(trial, most)};
}

static void break_beat(struct scene *self) {
  struct trial *trial = self->trial;
  if (self->breaks < DEAFEN) {
    await(self, is_broken, "the heartbeat's connection was never cut");
    return;
  }
  await(self, is_connected, "the heartbeat has no connection");
  trial_expect_role(trial, RELAY_HEARTBEAT);
  let_pass(self, trial_random(trial, MOMENTS_MS));
  trial->tally->cuts++;
  if (self->breaks == DEAFEN) {
    proxy_deafen(trial->proxy, RELAY_HEARTBEAT);
  } else {
    proxy_freeze(trial->proxy, RELAY_HEARTBEAT);
    self->thaw_ms = wait_now_ms() + trial_random(trial, STILL_MS);
  }
}

static void supersede(struct scene *self) {
  bool sleeps = self->then == SLEEPS;
  pid_t pid = agent_process_pid(self->trial->job->agent);
  if (sleeps)
    assert_int_equal(kill(pid, SIGSTOP), 0);
  let_pass(self, trial_random(self->trial, THEN_MS));
  self->first = trial_supersede_agent(self->trial);
  await(self, is_there, "the second agent does not beat");
  if (sleeps)
    let_pass(self, trial_random(self->trial, SLEEP_MS));
  assert_int_equal(kill(pid, SIGCONT), 0);
}

static void deal_with_agent(struct scene *self) {
  if (self->then == GOES_ON)
    return;
  self->trial->tally->cuts++;
  if (self->then != IS_KILLED) {
    supersede(self);
    return;
  }
  let_pass(self, trial_random(self->trial, THEN_MS));
  trial_kill_agent(self->trial);
  trial_start_agent(self->trial);
}

static void mend(struct scene *self) {
  if (self->thaw_ms > wait_now_ms())
    let_pass(self, (long)(self->thaw_ms - wait_now_ms()));
  proxy_thaw(self->trial->proxy, RELAY_HEARTBEAT);
  self->mended_ts = unix_ms();
  self->silent_ms = wait_now_ms() + LEARN_MS + LATE_MS;
}

/* Waits for more than one SET, because a single one could be the last. */
static void await_beats(struct scene *self) {
  await(self, is_back, "the heartbeat does not come back");
  self->mended_ts = self->ts;
  await(self, is_back, "the heartbeat does not go on");
}

static void await_end_of_first(struct scene *self) {
  if (self->first == NULL)
    return;
  await(self, has_left, "the superseded agent stays");
  if (!agent_process_is_running(self->first) && agent_process_wait(self->first, 0) != 3)
    tally_find(self->trial->tally, TALLY_WRONG, 1, "the superseded agent left with %d",
               agent_process_wait(self->first, 0));
  fputs(agent_process_log(self->first), stderr);
}

void cut_beat(struct trial *trial) {
  struct scene scene = {.trial = trial,
                        .breaks = (enum break_kind)(trial->number % BREAKS),
                        .then = (enum then)(trial->number / BREAKS % THENS)};
  struct proxy_plan plan = {0};
  if (scene.breaks < DEAFEN)
    plan_cut(&scene, &plan);
  trial_open(trial, NULL);
  trial_put_proxy(trial, &plan);
  trial->work.may_be_interrupted = scene.then != GOES_ON;
  work_push_lines(&trial->work, 3, 0);
  trial_push_gated(trial, 40, "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo $i; sleep 0.05; done",
                   20);
  work_push_lines(&trial->work, 3, 1);
  trial_start_agent(trial);
  break_beat(&scene);
  deal_with_agent(&scene);
  mend(&scene);
  await_beats(&scene);
  await_end_of_first(&scene);
  trial_open_gate(trial);
  job_push_shutdown(trial->job);
  trial_finish(trial, WAIT_BOUND_MS);
  agent_process_free(scene.first);
}
