#include "agent/process/pipe_drain.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"

struct pipe_drain {
  struct pipe_drain *next;
  struct pipe_drains *drains;
  struct event *readable;
  int fd;
};

static void free_drain(struct pipe_drain *drain) {
  event_free(drain->readable);
  close(drain->fd);
  free(drain);
}

/* One read per turn of the loop: a process that prints without end must not delay the others. */
LOOP_CALLBACK(discard, struct pipe_drain *drain) {
  char discarded[16384];
  ssize_t length = read(drain->fd, discarded, sizeof discarded);
  if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR)))
    return;
  struct pipe_drain **link = &drain->drains->first;
  while (*link != drain)
    link = &(*link)->next;
  *link = drain->next;
  free_drain(drain);
}

void pipe_drains_add(struct pipe_drains *self, struct event_base *base, int fd) {
  struct pipe_drain *drain = memory_allocate(sizeof *drain);
  *drain = (struct pipe_drain){.drains = self, .fd = fd, .next = self->first};
  drain->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, discard, drain);
  self->first = drain;
}

void pipe_drains_release(struct pipe_drains *self) {
  while (self->first != NULL) {
    struct pipe_drain *drain = self->first;
    self->first = drain->next;
    free_drain(drain);
  }
}
