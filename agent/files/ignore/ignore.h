#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/tree/walk.h"
#include "base/error.h"

/*
 * Tells which entries of a walk are hidden, like ripgrep without `--no-ignore` and `--hidden`: by
 * ignore files, or by a leading "." of their names. PROTOCOL.md, "Ignored files", has the files and
 * their order.
 *
 * A repository begins at the next directory upwards with an entry `.git` of any kind. Links are
 * followed; only a regular file is an ignore file. One that cannot be read or is too long (glob.h)
 * is counted and hides nothing. All of them together have at most IGNORE_TEXT_MAX bytes, which may
 * take 40 times that in memory.
 */
#define IGNORE_TEXT_MAX ((size_t)1024 * 1024)

struct ignore;

/* `root` is the descriptor of the walk's root, used only here, and `path` its path. `home` and
   `config` are the values of HOME and XDG_CONFIG_HOME; NULL or "" if they are not set. */
struct ignore *ignore_new(int root, const char *path, const char *home, const char *config);

/* Call it for entries in the order of the walk, and for a directory before its entries. */
bool ignore_hides(struct ignore *self, const struct walk_entry *entry);

/* Returns how many ignore files could not be used so far, and the path of the first one, or "". */
size_t ignore_unused(const struct ignore *self, struct error *first);

/* Accepts NULL. */
void ignore_free(struct ignore *self);
