#ifndef AGENT_FILES_TREE_DEFAULT_EXCLUDES_H
#define AGENT_FILES_TREE_DEFAULT_EXCLUDES_H

/* Names of directories that hold what tools made or fetched: nobody looks for anything there. Ended
   by NULL. */
extern const char *const left_out_directories[];

#endif
