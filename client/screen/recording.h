#ifndef CLIENT_SCREEN_RECORDING_H
#define CLIENT_SCREEN_RECORDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/staged_file.h"
#include "client/steps/event.h"

/*
 * What one step printed, as a file that appears when it is whole.
 *
 *   recording_begin(&recording, RECORDING_PAGE, "out.html", NULL, job, id, &error)
 *   recording_add(&recording, &view, NULL, &error)    each of its events
 *   recording_finish(&recording, "exit 1", &error)
 *   recording_release(&recording)                     always; in the reverse order of their begins
 *
 * All but begin and release return 0, or -1 with the error. What is written does not stay in
 * memory.
 */
enum recording_format {
  RECORDING_PAGE, /* HTML that needs no script and loads nothing */
  RECORDING_CAST  /* of asciinema, version 2 */
};

struct recording {
  enum recording_format format;
  char *path, *directory_name;
  int directory;
  struct staged_file file;
  struct buffer text; /* not written yet */
  off_t written;
  const char *job, *id;
  char command[128];        /* of `started` */
  off_t title_at, about_at; /* of a page: what is known at the end only stands there */
  bool has_begun;           /* an event has come */
  int64_t first_ms, now_ms; /* of the first event, and of this one */
  bool is_open;             /* a line that goes on, of: */
  bool is_stderr;
  struct sgr {
    bool bold;
    int color, background; /* of 16; -1: none */
  } sgr[2];
};

/* What release may be called with when begin never was. */
#define RECORDING_NONE                                                                             \
  (struct recording) {                                                                             \
    .directory = -1, .file = STAGED_FILE_NONE                                                      \
  }

/* The job and the id outlive it. `other`: one that is open, which must not be the same file; NULL:
   none. Waits while another process makes the file. */
int recording_begin(struct recording *self, enum recording_format format, const char *path,
                    const struct recording *other, const char *job, const char *id,
                    struct error *error);

/* `note`: a line in front of it that the step has not printed; NULL: none. */
int recording_add(struct recording *self, const struct event_view *view, const char *note,
                  struct error *error);

/* `how` it has ended. */
int recording_finish(struct recording *self, const char *how, struct error *error);
void recording_release(struct recording *self);

#endif
