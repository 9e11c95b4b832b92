#include "base/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* Warnings are about failures that the functions below report. After an error, such as running out
   of descriptors, libevent would exit with its own code. */
static void on_message(int severity, const char *message) {
  if (severity < EVENT_LOG_ERR)
    return;
  (void)fprintf(stderr, "event loop: %s\n", message);
  (void)fflush(stderr); /* the client buffers it */
  _exit(MEMORY_EXHAUSTED_EXIT);
}

struct event_base *loop_event_base_new(void) {
  event_set_log_callback(on_message);
  struct event_base *base = event_base_new();
  if (base == NULL)
    memory_exhausted("an event loop");
  return base;
}

static struct event *checked(struct event *event) {
  if (event == NULL)
    memory_exhausted("an event");
  return event;
}

struct event *loop_event_new_idle(struct event_base *base, int fd, short what,
                                  event_callback_fn callback, void *owner) {
  return checked(event_new(base, fd, what, callback, owner));
}

/* The user may have too many watches: fs.epoll.max_user_watches. */
_Noreturn static void cannot_watch(void) {
  (void)fprintf(stderr, "event loop: cannot watch a descriptor: %s\n", strerror(errno));
  (void)fflush(stderr);
  _exit(MEMORY_EXHAUSTED_EXIT);
}

struct event *loop_event_new(struct event_base *base, int fd, short what,
                             event_callback_fn callback, void *owner) {
  struct event *event = loop_event_new_idle(base, fd, what, callback, owner);
  if (event_add(event, NULL) != 0)
    cannot_watch();
  return event;
}

struct event *loop_timer_new(struct event_base *base, event_callback_fn callback, void *owner) {
  return checked(evtimer_new(base, callback, owner));
}

void loop_timer_start(struct event *timer, int64_t milliseconds) {
  struct timeval time = {.tv_sec = (time_t)(milliseconds / 1000),
                         .tv_usec = (suseconds_t)(milliseconds % 1000) * 1000};
  if (evtimer_add(timer, &time) != 0)
    memory_exhausted("a timer");
}

void loop_timer_start_now(struct event *timer) {
  loop_timer_start(timer, 0);
}

LOOP_CALLBACK(on_turn, void *nothing) {
  (void)nothing; /* the loop returns */
}

void loop_turn(struct event_base *base, int64_t milliseconds) {
  struct event *turn = loop_timer_new(base, on_turn, NULL);
  loop_timer_start(turn, milliseconds);
  (void)event_base_loop(base, EVLOOP_ONCE);
  event_free(turn);
}
