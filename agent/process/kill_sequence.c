#include "agent/process/kill_sequence.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"

/* From one scan to the next, before and after SIGKILL: a scan takes some milliseconds where there
   are hundreds of processes. */
#define TERM_SCAN_MS 50
#define KILL_SCAN_MS 10

/* So many scans in a row must find nobody: a scan is a snapshot and may miss a fork. */
#define QUIET_SCANS 2

#define CHASE_MS 20

/* While another command runs beside, for how long orphans without a living member count. */
#define BESIDE_MS 200

static void scan_again(struct kill_sequence *self, int64_t ms) {
  loop_timer_start(self->timer, ms);
}

/* Orphans of a command that runs beside look the same, and may come for ever. */
static bool may_be_of_others(const struct kill_sequence *self, int64_t now_ms) {
  return process_tree_is_beside(self->tree) && now_ms >= self->seen_ms + BESIDE_MS;
}

static void scan(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct kill_sequence *self = context;
  int64_t now = clock_monotonic_ms();
  bool killing = now >= self->kill_at_ms;
  size_t living = process_tree_signal(self->tree, killing ? SIGKILL : 0);
  if (living > 0)
    self->seen_ms = now;
  /* Orphans ended although the scan found nobody: their children are still there. */
  bool outrun = living == 0 && self->orphans > 0 && !may_be_of_others(self, now);
  if (killing && outrun)
    process_tree_chase(self->tree, CHASE_MS);
  self->orphans = 0;
  self->quiet_scans = living > 0 || outrun ? 0 : self->quiet_scans + 1;
  if (self->quiet_scans < QUIET_SCANS && now < self->kill_at_ms + KILL_SEQUENCE_GIVE_UP_MS) {
    int64_t left = self->kill_at_ms - now;
    bool wait = !killing && living > 0;
    scan_again(self, !wait ? KILL_SCAN_MS : left < TERM_SCAN_MS ? left : TERM_SCAN_MS);
    return;
  }
  self->running = false;
  self->gone(self->owner, living + outrun);
}

void kill_sequence_init(struct kill_sequence *self, struct event_base *base,
                        const struct process_tree *tree,
                        void (*gone)(void *owner, size_t survivors), void *owner) {
  *self = (struct kill_sequence){.tree = tree, .gone = gone, .owner = owner};
  self->timer = loop_timer_new(base, scan, self);
}

void kill_sequence_release(struct kill_sequence *self) {
  event_free(self->timer);
}

void kill_sequence_child_ended(struct kill_sequence *self, pid_t pid) {
  pid_t session = self->running ? getsid(pid) : 0;
  if (session != self->session)
    self->may_hold = session <= 0 || process_tree_may_hold(self->tree, session);
  self->session = session;
}

void kill_sequence_orphan_reaped(struct kill_sequence *self) {
  if (self->session <= 0 || self->may_hold)
    self->orphans++;
}

void kill_sequence_start(struct kill_sequence *self, int64_t grace_ms) {
  int64_t kill_at_ms = clock_monotonic_ms() + grace_ms;
  if (self->running) {
    if (kill_at_ms >= self->kill_at_ms)
      return;
    self->kill_at_ms = kill_at_ms;
  } else {
    self->running = true;
    self->session = 0;
    self->orphans = 0;
    self->quiet_scans = 0;
    self->seen_ms = clock_monotonic_ms();
    self->kill_at_ms = kill_at_ms;
    if (grace_ms > 0)
      (void)process_tree_signal(self->tree, SIGTERM);
  }
  scan_again(self, 0);
}
