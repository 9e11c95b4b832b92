#ifndef AGENT_DOORS_FILES_REQUEST_LOOK_H
#define AGENT_DOORS_FILES_REQUEST_LOOK_H

#include <limits.h>
#include <sys/stat.h>

#include "agent/doors/files/exec_request.h"
#include "agent/doors/files/ipc_directory.h"
#include "base/error.h"

/*
 * What is found where a request's file should be, at this moment: who writes it may not be through.
 *
 *   request_look_take(&look, &ipc, id, &rules, &text)
 *     ... look.found ...
 *   request_look_release(&look)
 */
enum request_found {
  REQUEST_READY,
  REQUEST_REFUSED,    /* to be answered with the error */
  REQUEST_SHORT,      /* it ends too early */
  REQUEST_BROKEN,     /* it is not JSON */
  REQUEST_OF_OTHERS,  /* for another sidecar */
  REQUEST_NONE,       /* something that is no request; the error says what */
  REQUEST_UNREADABLE, /* now; the error says why */
  REQUEST_GONE
};

struct request_look {
  enum request_found found;
  struct exec_request request; /* whole when it is READY */
  struct stat file;            /* unless it is UNREADABLE or GONE */
  struct error error;
};

/* Nothing is owned. */
struct request_rules {
  const char *pack; /* of this sidecar; NULL or "": it takes all */
  struct exec_request_defaults defaults;
};

/* `text` is memory for the file's, which the next one is read into, too: memory that is new costs
   more than what is read into it. */
void request_look_take(struct request_look *self, const struct ipc_directory *ipc, const char *id,
                       const struct request_rules *rules, struct buffer *text);
void request_look_release(struct request_look *self);

/* The file's name. */
struct request_name {
  char text[NAME_MAX + 1];
};

struct request_name request_look_name(const char *id);

#endif
