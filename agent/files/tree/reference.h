#ifndef AGENT_FILES_TREE_REFERENCE_H
#define AGENT_FILES_TREE_REFERENCE_H

/*
 * The directory of a repository that holds what users have uploaded for reference, such as copies of
 * websites. It is not the project's, so that searches and trees leave it out, unless they begin in it.
 */
#define REFERENCE_DIRECTORY ".agentsmith/reference"

/* Its path relative to `root`, to be freed; NULL where it is not below the root, or is the root, or
   `repository` is NULL. All by their texts (agent/files/access/lexical_path.h): a relative root begins
   at the repository. */
char *reference_below(const char *repository, const char *root);

#endif
