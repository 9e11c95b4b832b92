#pragma once

#include <event2/event.h>
#include <stdint.h>

/* libevent without failures: its functions fail only when memory is exhausted, and these end the
   program then (memory.h). The caller frees each event with event_free. */
struct event_base *loop_event_base_new(void);

/* Defines the callback of an event, which takes its owner: LOOP_CALLBACK(on_timer, struct x *self)
   {…} */
#define LOOP_CALLBACK(NAME, SELF)                                                                  \
  static void NAME##_of(SELF);                                                                     \
  static void NAME(evutil_socket_t fd, short what, void *owner) {                                  \
    (void)fd;                                                                                      \
    (void)what;                                                                                    \
    NAME##_of(owner);                                                                              \
  }                                                                                                \
  static void NAME##_of(SELF)

/* Creates an event, and unless it is idle adds it to the loop. `what` is EV_READ or EV_WRITE,
   perhaps with EV_PERSIST. */
struct event *loop_event_new(struct event_base *base, int fd, short what,
                             event_callback_fn callback, void *owner);
struct event *loop_event_new_idle(struct event_base *base, int fd, short what,
                                  event_callback_fn callback, void *owner);

/* Creates a timer that is not started. */
struct event *loop_timer_new(struct event_base *base, event_callback_fn callback, void *owner);

/* Makes the timer fire once after this time, which replaces an earlier setting. */
void loop_timer_start(struct event *timer, int64_t milliseconds);

/* Makes the timer fire in the next loop iteration, after descriptors and other timers. An event
   that activates itself with event_active would starve them. */
void loop_timer_start_now(struct event *timer);

/* Runs one iteration of the loop, for at most this time. */
void loop_turn(struct event_base *base, int64_t milliseconds);
