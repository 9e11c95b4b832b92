#include "agent/files/grep/prefilter.h"

#include <string.h>

#include "agent/files/grep/pattern_reader.h"

#define DEPTH_MAX 50

/* One of these is in every match; none: not known. */
struct literals {
  struct byte_literal items[MEMSCAN_LITERALS_MAX];
  size_t count;
};

static struct literals read_alternatives(struct pattern_reader *self);

static size_t shortest(const struct literals *self) {
  size_t length = self->count > 0 ? MEMSCAN_LITERAL_MAX : 0;
  for (size_t i = 0; i < self->count; i++)
    if (self->items[i].length < length)
      length = self->items[i].length;
  return length;
}

/* Both are in every match; the better one is kept. A single byte is in too many lines. */
static void keep_better(struct literals *best, const struct literals *other) {
  size_t length = shortest(other);
  size_t before = shortest(best);
  if (length >= 2 && (length > before || (length == before && other->count < best->count)))
    *best = *other;
}

static void unite(struct literals *self, const struct literals *other) {
  if (self->count == 0 || other->count == 0 || self->count + other->count > MEMSCAN_LITERALS_MAX) {
    self->count = 0;
    return;
  }
  memcpy(self->items + self->count, other->items, other->count * sizeof *other->items);
  self->count += other->count;
}

static void end_run(struct literals *best, struct literals *run) {
  run->count = 1;
  keep_better(best, run);
  run->items[0].length = 0;
}

/* The letters that Unicode also folds to one outside of ASCII, the long s and the Kelvin sign, are
   not known in either case, nor are those that are outside of it. */
static bool can_fold(const struct atom *atom) {
  return atom->length == 1 && (unsigned char)atom->text[0] < 0x80 &&
         (atom->text[0] | 0x20) != 'k' && (atom->text[0] | 0x20) != 's';
}

static void add_to_run(const struct pattern_reader *self, struct literals *best,
                       struct literals *run, const struct atom *atom) {
  struct byte_literal *literal = &run->items[0];
  if (literal->length + atom->length > MEMSCAN_LITERAL_MAX)
    end_run(best, run);
  for (size_t i = 0; i < atom->length; i++) {
    char lower = (char)(atom->text[i] | 0x20);
    bool folded = self->folds && lower >= 'a' && lower <= 'z';
    literal->folds[literal->length] = folded ? 0x20 : 0;
    literal->bytes[literal->length++] = (unsigned char)(folded ? lower : atom->text[i]);
  }
}

static void add_atom(const struct pattern_reader *self, struct literals *best, struct literals *run,
                     const struct atom *atom, const struct literals *within,
                     struct repetition repetition) {
  if (atom->kind == ATOM_NOTHING || atom->kind == ATOM_LOOKAROUND)
    return;
  bool known =
      atom->kind == ATOM_CHARACTER && !repetition.optional && (!self->folds || can_fold(atom));
  if (known)
    add_to_run(self, best, run, atom);
  if (!known || repetition.is_any)
    end_run(best, run);
  if (atom->kind == ATOM_GROUP && !repetition.optional)
    keep_better(best, within);
}

/* What is in a group, and its end. */
static struct literals read_group(struct pattern_reader *self) {
  struct literals within = {.count = 0};
  if (self->is_lost || ++self->depth > DEPTH_MAX) {
    pattern_reader_lose(self);
    return within;
  }
  within = read_alternatives(self);
  self->depth--;
  if (self->is_lost || *self->at != ')')
    pattern_reader_lose(self);
  else
    self->at++;
  return within;
}

/* What cannot match a line's end finds at it just what it finds where a text ends. What can, in
   front of it or behind it, is in the way within lookaround and where nothing is given back; within
   groups it is not looked at so closely. */
static struct literals read_sequence(struct pattern_reader *self) {
  struct literals best = {.count = 0};
  struct literals run = {.count = 1};
  while (!self->is_lost && *self->at != '\0' && *self->at != '|' && *self->at != ')') {
    struct literals within = {.count = 0};
    bool folds = self->folds;
    bool dot_is_any = self->dot_is_any;
    struct atom atom = pattern_reader_atom(self);
    if (atom.kind == ATOM_GROUP || atom.kind == ATOM_LOOKAROUND) {
      within = read_group(self);
      self->folds = folds;
      self->dot_is_any = dot_is_any;
    }
    if (self->is_lost)
      break;
    struct repetition repetition = pattern_reader_repetition(self);
    if ((atom.spans && (self->depth > 0 || repetition.is_possessive)) ||
        (atom.spans_far && repetition.is_any))
      self->is_local = false;
    add_atom(self, &best, &run, &atom, &within, repetition);
  }
  end_run(&best, &run);
  return best;
}

static struct literals read_alternatives(struct pattern_reader *self) {
  struct literals all = read_sequence(self);
  while (!self->is_lost && *self->at == '|') {
    self->at++;
    struct literals one = read_sequence(self);
    unite(&all, &one);
  }
  return all;
}

void prefilter_read(struct prefilter *self, const char *pattern) {
  struct pattern_reader reader = {.at = pattern, .is_local = true};
  struct literals literals = read_alternatives(&reader);
  if (*reader.at != '\0')
    pattern_reader_lose(&reader);
  self->is_local = reader.is_local;
  self->literal_count = reader.is_lost ? 0 : literals.count;
  memcpy(self->literals, literals.items, self->literal_count * sizeof *literals.items);
  for (size_t i = 0; i < self->literal_count; i++)
    byte_literal_choose(&self->literals[i]);
}
