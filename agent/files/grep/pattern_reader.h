#ifndef AGENT_FILES_GREP_PATTERN_READER_H
#define AGENT_FILES_GREP_PATTERN_READER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The syntax of PCRE2, read one atom after the other, as far as agent/files/pattern_shape.h needs
 * it. Pure. What is not surely understood makes the reader lost: it says nothing any more.
 *
 *   struct pattern_reader reader = {.at = pattern, .is_local = true};
 *   while (*reader.at is neither '\0' nor '|' nor ')' and it is not lost)
 *     atom = pattern_reader_atom(&reader);
 *     … what is in a group, and its ")", when it is one
 *     repetition = pattern_reader_repetition(&reader);
 */
struct pattern_reader {
  const char *at;
  size_t depth; /* of groups, counted by who reads them */
  bool is_lost;
  bool is_local;   /* so far */
  bool folds;      /* (?i) */
  bool dot_is_any; /* (?s) */
};

enum atom_kind {
  ATOM_CHARACTER,  /* stands for itself */
  ATOM_NOTHING,    /* takes no place: \b, (?i), … */
  ATOM_GROUP,      /* what is in it follows */
  ATOM_LOOKAROUND, /* the same, and it takes no place */
  ATOM_OTHER
};

struct atom {
  enum atom_kind kind;
  const char *text; /* of a character */
  size_t length;
  bool spans;     /* may match a line's end */
  bool spans_far; /* repeated, it may run over any number of lines */
};

struct repetition {
  bool is_any; /* there is one */
  bool optional;
  bool is_possessive;
};

struct atom pattern_reader_atom(struct pattern_reader *self);
struct repetition pattern_reader_repetition(struct pattern_reader *self);
void pattern_reader_lose(struct pattern_reader *self);

#endif
