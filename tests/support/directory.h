#ifndef TESTS_SUPPORT_DIRECTORY_H
#define TESTS_SUPPORT_DIRECTORY_H

#include <stdbool.h>

/* A directory for the files of one test. */
struct directory {
  char path[32];
};

/* Makes an empty one below /tmp; removes it with the files in it. Both fail the test when they can
   not. */
void directory_init(struct directory *self);
void directory_release(struct directory *self);

/* The path of a name in it; valid until eight more were asked for. */
const char *directory_path(const struct directory *self, const char *name);

/* A file in it: makes it, or says whether it is there. */
void directory_touch(const struct directory *self, const char *name);
bool directory_has(const struct directory *self, const char *name);

#endif
