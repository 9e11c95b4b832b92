#pragma once

#include <stdbool.h>

/* A directory for the files of one test, which is removed with them. */
struct directory {
  char path[32];
};

/* Makes an empty directory below /tmp; removes it with its files. Both fail the test if they
   cannot. */
void directory_init(struct directory *self);
void directory_release(struct directory *self);

/* The path of a file in it; valid until eight more were requested. */
const char *directory_path(const struct directory *self, const char *name);

/* Makes a file in it; returns whether a file exists. */
void directory_touch(const struct directory *self, const char *name);
bool directory_has(const struct directory *self, const char *name);
