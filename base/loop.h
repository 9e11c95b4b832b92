#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <event2/event.h>
#include <stdint.h>

/* libevent without its failures: it fails only when memory is exhausted, and then these functions
   end the program (memory.h). Each event ends with event_free. */
struct event_base *loop_event_base_new(void);

/* The callback of an event or a timer, with its owner: LOOP_CALLBACK(on_timer, struct x *self)
   {…} */
#define LOOP_CALLBACK(NAME, SELF)                                                                  \
  static void NAME##_of(SELF);                                                                     \
  static void NAME(evutil_socket_t fd, short what, void *owner) {                                  \
    (void)fd;                                                                                      \
    (void)what;                                                                                    \
    NAME##_of(owner);                                                                              \
  }                                                                                                \
  static void NAME##_of(SELF)

/* An event that is pending at once; `what` is EV_READ or EV_WRITE, perhaps with EV_PERSIST. */
struct event *loop_event_new(struct event_base *base, int fd, short what,
                             event_callback_fn callback, void *owner);

/* Events that are not pending. */
struct event *loop_event_new_idle(struct event_base *base, int fd, short what,
                                  event_callback_fn callback, void *owner);
struct event *loop_timer_new(struct event_base *base, event_callback_fn callback, void *owner);

/* Makes the timer call back once after this time. Replaces the time that was pending. */
void loop_timer_start(struct event *timer, int64_t milliseconds);

/* Makes the timer call back in the next turn of the loop, after descriptors and other timers: a
   timer that starts itself again and again delays them by one call each time. An event that makes
   itself active with event_active delays them for ever. */
void loop_timer_start_now(struct event *timer);

#endif
