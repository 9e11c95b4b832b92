#ifndef AGENT_FRONTENDS_CALL_IDS_H
#define AGENT_FRONTENDS_CALL_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/json.h"

/*
 * The calls that may be cancelled, by their ids, for frontends whose cancel names an id. Two ids
 * are the same when their JSON values are: 1 is 1.0 and 10e-1, but not "1"; "a" is "\u0061".
 * Numbers are compared exactly, however many digits they have; what is no string and no number, by
 * its text.
 *
 *   call_ids_add(&ids, &call->entry, id, call)      when the call arrives
 *   call = call_ids_find(&ids, id)                  a cancel: the oldest one with this id, or NULL
 *   call_ids_remove(&ids, &call->entry)             once it can no longer be cancelled
 *
 * An id is brought into one form once, when it is added: finding it does not look at every call.
 * Pure. The ids were parsed: they are JSON and UTF-8.
 */

/* One call's place, a part of the call; nothing but zeros while it is not added. */
struct call_id {
  struct call_id *next, *previous; /* in its chain, older ones first */
  void *call;
  char *text; /* the id in the one form; owned; NULL: not added */
  size_t length;
  uint64_t hash;
};

#define CALL_IDS_CHAINS 1024

/* Zeros: empty. */
struct call_ids {
  struct {
    struct call_id *first, *last;
  } chains[CALL_IDS_CHAINS];
};

void call_ids_add(struct call_ids *self, struct call_id *entry, struct json_member id, void *call);

/* Nothing happens when it is not added. */
void call_ids_remove(struct call_ids *self, struct call_id *entry);

void *call_ids_find(const struct call_ids *self, struct json_member id);

#endif
