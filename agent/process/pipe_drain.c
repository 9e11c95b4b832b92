#include "agent/process/pipe_drain.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"

struct pipe_drain {
  struct list_node node;
  struct list *drains;
  struct event *readable;
  int fd;
};

static void free_drain(struct pipe_drain *self) {
  list_remove(self->drains, &self->node);
  event_free(self->readable);
  close(self->fd);
  free(self);
}

/* One read per turn of the loop: a process that prints without end must not delay the others. */
LOOP_CALLBACK(discard, struct pipe_drain *self) {
  char discarded[16384];
  ssize_t length = read(self->fd, discarded, sizeof discarded);
  if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
    free_drain(self);
}

void pipe_drain_add(struct list *drains, struct event_base *base, int fd) {
  struct pipe_drain *self = memory_allocate(sizeof *self);
  *self = (struct pipe_drain){.drains = drains, .fd = fd};
  self->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, discard, self);
  list_append(drains, &self->node);
}

void pipe_drain_release(struct list *drains) {
  LIST_FOR_EACH (struct pipe_drain, drain, drains, node)
    free_drain(drain);
}
