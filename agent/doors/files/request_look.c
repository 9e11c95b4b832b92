#include "agent/doors/files/request_look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/payload_limit.h"
#include "base/buffer.h"
#include "base/printable.h"

struct request_name request_look_name(const char *id) {
  struct request_name name;
  (void)snprintf(name.text, sizeof name.text, EXEC_REQUEST_PREFIX "%s" EXEC_REQUEST_SUFFIX, id);
  return name;
}

static size_t request_max(void) {
  return payload_limit() < EXEC_REQUEST_MAX ? payload_limit() : EXEC_REQUEST_MAX;
}

static enum request_found parse_request(struct request_look *self, const char *id,
                                        const struct request_rules *rules,
                                        const struct buffer *text) {
  const char *bytes = text->length > 0 ? text->bytes : "";
  enum exec_request_state state =
      exec_request_parse(&self->request, bytes, text->length, id, &rules->defaults, &self->error);
  if (!exec_request_is_for(&self->request, rules->pack))
    return REQUEST_OF_OTHERS;
  return state == EXEC_REQUEST_READY     ? REQUEST_READY
         : state == EXEC_REQUEST_REFUSED ? REQUEST_REFUSED
         : state == EXEC_REQUEST_SHORT   ? REQUEST_SHORT
                                         : REQUEST_BROKEN;
}

static enum request_found find_request(struct request_look *self, const struct ipc_directory *ipc,
                                       const char *id, const struct request_rules *rules,
                                       struct buffer *text) {
  const struct request_name name = request_look_name(id);
  if (!exec_request_id_is_valid(id, strlen(id))) {
    (void)error_set(&self->error, "its name is no id in UTF-8 without control characters");
    return ipc_directory_has(ipc, name.text) ? REQUEST_NONE : REQUEST_GONE;
  }
  switch (ipc_directory_read(ipc, name.text, request_max(), text, &self->file)) {
  case IPC_READ:
    return parse_request(self, id, rules, text);
  case IPC_READ_NOTHING:
    return REQUEST_GONE;
  case IPC_READ_NO_FILE:
    (void)error_set(&self->error, "it is %s", printable_file_kind(self->file.st_mode));
    return REQUEST_NONE;
  case IPC_READ_TOO_LONG:
    (void)error_set(&self->error, "request is longer than %zu bytes", request_max());
    return REQUEST_REFUSED;
  case IPC_READ_ERROR:
    break;
  }
  (void)error_set(&self->error, "%s", strerror(errno));
  return REQUEST_UNREADABLE;
}

void request_look_take(struct request_look *self, const struct ipc_directory *ipc, const char *id,
                       const struct request_rules *rules, struct buffer *text) {
  *self = (struct request_look){0};
  text->length = 0;
  self->found = find_request(self, ipc, id, rules, text);
}

void request_look_release(struct request_look *self) {
  exec_request_release(&self->request);
}
