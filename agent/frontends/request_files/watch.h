#ifndef AGENT_FRONTENDS_REQUEST_FILES_WATCH_H
#define AGENT_FRONTENDS_REQUEST_FILES_WATCH_H

#include <event2/event.h>
#include <stdbool.h>

#include "base/log.h"

/*
 * What happens in two directories, by inotify(7): the one that is shared, and `tools` in it. They
 * are watched by their descriptors, so that what is watched is what is looked into. A scan,
 * WATCH_SCAN_MS apart, is a net for what inotify does not tell: a hard link, a bind mount, a queue
 * that has overflowed. Where there is no inotify (as many watchers as a user may have, and every
 * pod's user is the same), scans come each WATCH_SCAN_ALONE_MS, and that is logged once.
 *
 *   watch = watch_new(base, log, directory, &handler, owner)
 *   watch_tools(watch, tools)   when `tools` was opened, and whenever it has become another directory
 *   watch_free(watch)
 */
#define WATCH_SCAN_MS 1000
#define WATCH_SCAN_ALONE_MS 100

struct watch;

/* Called from the loop. */
struct watch_handler {
  /* A file in tools was closed after writing, or got its name by a rename (`written`); else it is
     gone, or its name is. `name` is valid during the call. */
  void (*changed)(void *owner, const char *name, bool written);
  /* After these. With `scan` everything is to be looked at: also when something happened in the
     upper directory. */
  void (*settled)(void *owner, bool scan);
};

/* Does not fail. The descriptors, O_PATH is enough, are the caller's. The first scan is the
   caller's, too. */
struct watch *watch_new(struct event_base *base, const struct log *log, int directory,
                        const struct watch_handler *handler, void *owner);
void watch_free(struct watch *self);

void watch_tools(struct watch *self, int tools);

bool watch_has_inotify(const struct watch *self);

#endif
