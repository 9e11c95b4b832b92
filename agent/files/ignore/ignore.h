#ifndef AGENT_FILES_IGNORE_IGNORE_H
#define AGENT_FILES_IGNORE_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/tree/walk.h"
#include "base/error.h"

/*
 * Says which entries of a walk the ignore files of their directories hide, as ripgrep does without
 * `--no-ignore` and `--hidden`:
 *
 *   struct ignore *ignore = ignore_new(root, "src", home, config);
 *   while (walk_next(walk, &entry))
 *     if (ignore_hides(ignore, &entry))
 *       … walk_skip(walk)
 *   ignore_free(ignore);
 *
 * These are the files. The first one that says something about an entry decides; of several files
 * of one name the one in the deepest directory comes first:
 *
 *   .rgignore, then .ignore    of its directory and of all above it, those above the root too
 *   .gitignore                 of its directory, and of those above it up to the repository's
 *   .git/info/exclude          of the repository
 *   git's global one           core.excludesFile of ~/.gitconfig or $XDG_CONFIG_HOME/git/config, else
 *                              $XDG_CONFIG_HOME/git/ignore; ~/.config where that variable is not set
 *
 * The last three count in a repository only, which begins at the next directory upwards with `.git`
 * in it, whatever that is: the innermost of nested ones. The file `.git` of a worktree or a
 * submodule is followed to its info/exclude. Where no file says anything, a name that begins with
 * "." is hidden. The index of git makes no difference. The root itself is never judged.
 *
 * Files are opened from the descriptor of their directory; links are followed; only a regular file
 * is an ignore file. One that cannot be read, or is too long (agent/files/glob/glob.h), hides
 * nothing, and is counted.
 *
 * Memory: the rules of the files above an entry, IGNORE_TEXT_MAX bytes of text at most, and 40
 * times that in the worst case.
 */
#define IGNORE_TEXT_MAX ((size_t)1024 * 1024)

struct ignore;

/* `root` is that of the walk, by its descriptor, which is used only here, and by its path. `home`
   and `config` are the values of HOME and XDG_CONFIG_HOME; NULL or "" where there is none. */
struct ignore *ignore_new(int root, const char *path, const char *home, const char *config);

/* Of entries in the order in which they come. A directory whose entries are judged was judged
   itself. */
bool ignore_hides(struct ignore *self, const struct walk_entry *entry);

/* How many ignore files were not used so far, and the path of the first; "" when there is none. */
size_t ignore_unused(const struct ignore *self, struct error *first);

/* May be NULL. */
void ignore_free(struct ignore *self);

#endif
