#ifndef AGENT_FRONTENDS_REQUEST_FILES_WATCH_H
#define AGENT_FRONTENDS_REQUEST_FILES_WATCH_H

#include <event2/event.h>
#include <stdbool.h>

#include "base/log.h"

/*
 * Watches the shared directory, and `tools` in it, with inotify(7), through descriptors that are
 * open. A scan every WATCH_SCAN_MS finds changes that inotify does not report: a hard link, a bind
 * mount, an overflow of the queue. Without inotify (its limits are per user, and all pods have the
 * same one) there is a scan every WATCH_SCAN_ALONE_MS, and one line in the log.
 *
 *   watch = watch_new(base, log, directory, &handler, owner)
 *   watch_tools(watch, tools)   whenever another `tools` was opened
 *   watch_free(watch)
 */
#define WATCH_SCAN_MS 1000
#define WATCH_SCAN_ALONE_MS 100

struct watch;

/* Both functions are called from the loop. */
struct watch_handler {
  /* A file in `tools` was closed after writing or renamed to this name (`written`), or no file has
     this name any more. The name is valid during the call. */
  void (*changed)(void *owner, const char *name, bool written);
  /* All changes of this turn were reported. With `scan` the owner must look at all names. */
  void (*changes_read)(void *owner, bool scan);
};

/* The descriptors stay the caller's; O_PATH is enough. The caller makes the first scan. */
struct watch *watch_new(struct event_base *base, const struct log *log, int directory,
                        const struct watch_handler *handler, void *owner);
void watch_free(struct watch *self);

void watch_tools(struct watch *self, int tools);

bool watch_has_inotify(const struct watch *self);

#endif
