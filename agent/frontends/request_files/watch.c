#include "agent/frontends/request_files/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/frontends/request_files/ipc_directory.h"
#include "base/loop.h"
#include "base/memory.h"

#define TOOLS_MASK (IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM)
/* DELETE_SELF does not come while the directory is open, so its name is watched from above. */
#define TOP_MASK (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM)

struct watch {
  const struct log *log;
  const struct watch_handler *handler;
  void *owner;
  int fd; /* -1: there is no inotify */
  int top;
  int tools;
  struct event *readable; /* NULL without inotify */
  struct event *timer;
};

bool watch_has_inotify(const struct watch *self) {
  return self->fd >= 0;
}

static void arm(struct watch *self) {
  loop_timer_start(self->timer, self->fd >= 0 ? WATCH_SCAN_MS : WATCH_SCAN_ALONE_MS);
}

static void scan_without_inotify(struct watch *self) {
  log_line(self->log, LOG_WARN, NULL, "inotify: %s: looking every %d ms instead", strerror(errno),
           WATCH_SCAN_ALONE_MS);
  if (self->readable != NULL)
    event_free(self->readable);
  if (self->fd >= 0)
    close(self->fd);
  self->readable = NULL;
  self->fd = -1;
}

/* Reports a change in `tools`. Returns true if the owner must look at all names. */
static bool handle_event(struct watch *self, const struct inotify_event *event) {
  const char *name = event->len > 0 ? event->name : "";
  if ((event->mask & (IN_Q_OVERFLOW | IN_IGNORED | IN_UNMOUNT)) != 0)
    return true;
  if (event->wd == self->top)
    return strcmp(name, IPC_TOOLS) == 0 || strcmp(name, IPC_DONE) == 0;
  if (event->wd == self->tools)
    self->handler->changed(self->owner, name, (event->mask & (IN_DELETE | IN_MOVED_FROM)) == 0);
  return false;
}

LOOP_CALLBACK(on_readable, struct watch *self) {
  _Alignas(struct inotify_event) char bytes[16 * 1024];
  bool scan = false, is_changed = false;
  ssize_t length = read(self->fd, bytes, sizeof bytes);
  for (ssize_t at = 0; at < length;) {
    const struct inotify_event *event = (const void *)(bytes + at);
    scan |= handle_event(self, event);
    is_changed |= event->wd == self->tools;
    at += (ssize_t)sizeof *event + (ssize_t)event->len;
  }
  if (scan || is_changed)
    self->handler->changes_read(self->owner, scan);
}

LOOP_CALLBACK(on_timer, struct watch *self) {
  arm(self);
  self->handler->changes_read(self->owner, true);
}

/* inotify takes only paths. This one leads to the open directory, whatever its name is now. */
static int add_watch(const struct watch *self, int directory, uint32_t mask) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
  return inotify_add_watch(self->fd, path, mask | IN_ONLYDIR);
}

struct watch *watch_new(struct event_base *base, const struct log *log, int directory,
                        const struct watch_handler *handler, void *owner) {
  struct watch *self = memory_allocate(sizeof *self);
  *self = (struct watch){.log = log, .handler = handler, .owner = owner, .top = -1, .tools = -1};
  self->timer = loop_timer_new(base, on_timer, self);
  self->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (self->fd >= 0) {
    self->readable = loop_event_new(base, self->fd, EV_READ | EV_PERSIST, on_readable, self);
    self->top = add_watch(self, directory, TOP_MASK);
  }
  if (self->fd < 0 || self->top < 0)
    scan_without_inotify(self);
  arm(self);
  return self;
}

void watch_tools(struct watch *self, int tools) {
  if (self->fd < 0)
    return;
  int before = self->tools;
  self->tools = add_watch(self, tools, TOOLS_MASK);
  int error = errno;
  if (before >= 0 && before != self->tools)
    (void)inotify_rm_watch(self->fd, before); /* fails if the kernel has removed it */
  errno = error;
  if (self->tools < 0) {
    scan_without_inotify(self);
    arm(self);
  }
}

void watch_free(struct watch *self) {
  if (self->readable != NULL)
    event_free(self->readable);
  event_free(self->timer);
  if (self->fd >= 0)
    close(self->fd);
  free(self);
}
