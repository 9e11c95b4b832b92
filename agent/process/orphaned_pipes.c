#include "agent/process/orphaned_pipes.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"

struct pipe_drain {
  struct event *readable;
  struct orphaned_pipes *owner;
  struct pipe_drain *next;
  int fd;
};

struct orphaned_pipes {
  struct event_base *base;
  struct pipe_drain *drains;
};

struct orphaned_pipes *orphaned_pipes_new(struct event_base *base) {
  struct orphaned_pipes *self = memory_allocate(sizeof *self);
  *self = (struct orphaned_pipes){.base = base};
  return self;
}

static void pipe_drain_free(struct pipe_drain *drain) {
  event_free(drain->readable);
  close(drain->fd);
  free(drain);
}

void orphaned_pipes_free(struct orphaned_pipes *self) {
  for (struct pipe_drain *drain = self->drains, *next; drain != NULL; drain = next) {
    next = drain->next;
    pipe_drain_free(drain);
  }
  free(self);
}

/* One read per turn of the loop: a process that prints without end must not delay the others. */
static void discard(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct pipe_drain *drain = context;
  char discarded[16384];
  ssize_t length = read((int)fd, discarded, sizeof discarded);
  if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR)))
    return;
  struct pipe_drain **link = &drain->owner->drains;
  while (*link != drain)
    link = &(*link)->next;
  *link = drain->next;
  pipe_drain_free(drain);
}

void orphaned_pipes_adopt(struct orphaned_pipes *self, int fd) {
  struct pipe_drain *drain = memory_allocate(sizeof *drain);
  *drain = (struct pipe_drain){.owner = self, .fd = fd, .next = self->drains};
  drain->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, discard, drain);
  self->drains = drain;
}
