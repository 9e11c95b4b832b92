#include "agent/frontends/request_files/exec_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define FIRST_CAPACITY 16

/* Returns the index of the id, or that where it would be inserted. */
static size_t place_of(const struct exec_table *self, const char *id) {
  size_t low = 0, high = self->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(self->items[middle]->id, id) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct exec *exec_table_get(struct exec_table *self, const char *id, bool make) {
  size_t place = place_of(self, id);
  if (place < self->count && strcmp(self->items[place]->id, id) == 0)
    return self->items[place];
  if (!make)
    return NULL;
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CAPACITY;
    self->items = memory_resize(self->items, self->capacity * sizeof(struct exec *));
  }
  struct exec **gap = self->items + place;
  memmove(gap + 1, gap, (self->count - place) * sizeof(struct exec *));
  self->count++;
  self->in[EXEC_NEW]++;
  *gap = memory_allocate(sizeof **gap);
  **gap = (struct exec){.id = memory_copy(id, strlen(id))};
  return *gap;
}

void exec_table_set(struct exec_table *self, struct exec *exec, enum exec_state state) {
  self->in[exec->state]--;
  self->in[state]++;
  exec->state = state;
}

static void free_exec(struct exec *exec) {
  buffer_release(&exec->result);
  free(exec->id);
  free(exec);
}

void exec_table_remove(struct exec_table *self, struct exec *exec) {
  size_t place = place_of(self, exec->id);
  CHECK(place < self->count && self->items[place] == exec);
  struct exec **gap = self->items + place;
  self->count--;
  self->in[exec->state]--;
  memmove(gap, gap + 1, (self->count - place) * sizeof(struct exec *));
  free_exec(exec);
}

void exec_table_release(struct exec_table *self) {
  for (size_t i = 0; i < self->count; i++)
    free_exec(self->items[i]);
  free(self->items);
  *self = (struct exec_table){0};
}

static bool is_older(const struct exec *left, const struct exec *right) {
  const struct timespec *a = &left->file.st_mtim, *b = &right->file.st_mtim;
  if (left->round != right->round)
    return left->round < right->round;
  return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

size_t exec_table_oldest(const struct exec_table *self, enum exec_state state, struct exec **out,
                         size_t most) {
  size_t count = 0;
  for (size_t i = 0; i < self->count && self->in[state] > 0; i++) {
    struct exec *exec = self->items[i];
    if (exec->state != state || (count == most && !is_older(exec, out[count - 1])))
      continue;
    size_t place = count < most ? count++ : count - 1;
    for (; place > 0 && is_older(exec, out[place - 1]); place--)
      out[place] = out[place - 1];
    out[place] = exec;
  }
  return count;
}

struct exec *exec_table_first(const struct exec_table *self, enum exec_state state) {
  struct exec *first;
  return exec_table_oldest(self, state, &first, 1) > 0 ? first : NULL;
}
