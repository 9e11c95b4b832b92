#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <event2/event.h>
#include <stdint.h>

/*
 * Events of libevent that are there or the program is not: libevent fails only for want of memory,
 * and then these abort with a line that says so. What is made here ends with event_free.
 */
struct event_base *loop_event_base_new(void);

/* Pending at once; EV_READ or EV_WRITE, perhaps EV_PERSIST. */
struct event *loop_event_new(struct event_base *base, int fd, short what,
                             event_callback_fn callback, void *owner);

/* Not pending. */
struct event *loop_event_new_idle(struct event_base *base, int fd, short what,
                                  event_callback_fn callback, void *owner);
struct event *loop_timer_new(struct event_base *base, event_callback_fn callback, void *owner);

/* Calls back once after this time, instead of what was pending before. */
void loop_timer_start(struct event *timer, int64_t milliseconds);

/* Calls back in this turn of the loop, but not from inside the call. */
void loop_timer_start_now(struct event *timer);

struct timeval loop_milliseconds(int64_t milliseconds);

#endif
