#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/staged_file.h"
#include "client/steps/event.h"

/* Writes the output of one step to a file, which appears when it is complete. Functions return 0,
   or -1 with the error. Several recordings are released in the reverse order of their begins. */
enum recording_format {
  RECORDING_PAGE, /* HTML without scripts or external resources */
  RECORDING_CAST  /* asciinema, version 2 */
};

enum recording_line { LINE_CLOSED, LINE_STDOUT, LINE_STDERR };

struct recording {
  enum recording_format format;
  char *path;
  int directory;
  struct staged_file file;
  struct buffer text; /* not written yet */
  const char *job, *id;
  char command[128];        /* from the event `started` */
  size_t header_at;         /* where a page reserves space for its title and header */
  bool has_begun;           /* an event has been added */
  int64_t first_ms, now_ms; /* times of the first and of the latest event */
  enum recording_line line; /* the line that the next event may continue */
  struct sgr {
    bool bold;
    int color, background; /* 0 to 15; -1: the default */
  } sgr[2];
};

/* recording_release accepts this. */
#define RECORDING_NONE                                                                             \
  (struct recording) {                                                                             \
    .directory = -1, .file = STAGED_FILE_NONE                                                      \
  }

/* The job and the id are borrowed. The file must not be the one of `other`, which may be NULL.
   Waits while another process makes the same file. */
int recording_begin(struct recording *self, enum recording_format format, const char *path,
                    const struct recording *other, const char *job, const char *id,
                    struct error *error);

/* `note` becomes a line before the event; NULL: none. */
int recording_add(struct recording *self, const struct event_view *view, const char *note,
                  struct error *error);

/* Completes the file, which then appears. `outcome` says how the step ended. */
int recording_finish(struct recording *self, const char *outcome, struct error *error);
void recording_release(struct recording *self);
