#pragma once

#include "client/steps/transfer.h"
#include "client/tar/tar.h"

/*
 * Copies a directory file by file, for an image without tar. Into the sandbox, each file appears
 * when it is complete. Out of the sandbox, the files become an archive, so that tar.h unpacks what
 * an untrusted sandbox sends.
 *
 *   code = copy_tree_send(&tree, directory);
 *
 *   while ((code = copy_tree_next(&tree, &bytes)) == 0 && bytes.length > 0) …
 *   copy_tree_release(&tree);
 */
struct copy_tree {
  /* The caller's. */
  struct file_steps *steps;
  const char *remote; /* the directory in the sandbox */
  bool replaces;      /* it exists there, and keeps its mode */
  struct stat status; /* its mode and time, out of the sandbox */
  const struct tree_report *report;
  void (*moved)(void *owner, size_t length); /* bytes into the sandbox; the report's owner */

  char *path; /* of this file in the sandbox; NULL: none */
  char *name; /* of this file: "./a/b" */
  /* Into the sandbox. */
  bool lacks_mkdir;
  struct transfer_out out;
  /* Out of the sandbox. */
  enum { COPY_TREE_NEW, COPY_TREE_LISTS, COPY_TREE_READS, COPY_TREE_FILLS, COPY_TREE_OVER } state;
  char **directories; /* "./a/b/": they are not listed yet */
  size_t directory_count;
  char *directory; /* whose list this is */
  cJSON *list;
  const cJSON *item; /* the next one */
  struct transfer_in in;
  uint64_t size, put; /* bytes of this file: all, and those in the archive */
};

/* Returns 0, or the exit code after an error message. */
int copy_tree_send(struct copy_tree *self, const char *directory);

/* Replaces the bytes by the next ones of the archive, and by none at its end. Returns 0, or the
   exit code after an error message. */
int copy_tree_next(struct copy_tree *self, struct buffer *bytes);
void copy_tree_release(struct copy_tree *self);
