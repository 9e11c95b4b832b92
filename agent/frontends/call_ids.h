#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/json.h"

/*
 * Finds the call that a cancel names. The hard part is that two ids are equal if their JSON values
 * are: 1 equals 1.0 and 10e-1, but not "1"; "a" equals "\u0061". Numbers of more than 15 bytes and
 * other values are compared as text.
 *
 *   call_ids_add(&ids, &call->entry, scope, id, call)   when the call arrives
 *   call = call_ids_find(&ids, scope, id)               the oldest call with this id, or NULL
 *   call_ids_remove(&ids, &call->entry)                 once it can no longer be cancelled
 *
 * Ids of different scopes are never equal. A scope is a line of text, or NULL, which is one, too.
 *
 * Each id is brought into a canonical form once and hashed, so a search does not compare all of
 * them. Pure. Every id must be JSON that was parsed before, with a byte behind it.
 */

/* The entry of one call, a member of the call; zeros while it is not added. */
struct call_id {
  struct list_node node; /* in its chain, older ones first */
  void *call;
  char *text; /* scope and canonical id; owned; NULL: not added */
  size_t length;
  uint64_t hash;
};

#define CALL_IDS_CHAINS 1024

/* Zeros are an empty set. */
struct call_ids {
  struct list chains[CALL_IDS_CHAINS];
};

void call_ids_add(struct call_ids *self, struct call_id *entry, const char *scope,
                  struct json_member id, void *call);

/* Does nothing if the entry is not added. */
void call_ids_remove(struct call_ids *self, struct call_id *entry);

void *call_ids_find(const struct call_ids *self, const char *scope, struct json_member id);
