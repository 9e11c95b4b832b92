#ifndef AGENT_FILES_ACCESS_ATTRIBUTES_H
#define AGENT_FILES_ACCESS_ATTRIBUTES_H

/*
 * Gives a new file what the one that it replaces has beside its content: owner, group, mode, access
 * list and extended attributes. Nobody gets rights to the file by it that he had not before, except
 * the process itself, which may become the owner:
 *
 * - What the new file inherited from its directory (a default access list) is removed.
 * - Where the owner or the group cannot be kept, the set-id bits are dropped. The new group, and
 *   everybody, then get only what the old group, all groups of the list and everybody had.
 * - Capabilities of a program (security.capability) and sums of the content (security.ima,
 *   security.evm) are not kept: they belong to the old content. write(2) drops the first as well.
 *
 * Other extended attributes are kept as far as this process may read and set them.
 *
 * `to` is open for writing, and nobody else may read it yet; `from` is open for reading, or for
 * writing, which keeps less. Returns 0, or -1 with errno: then `to` may have some of it, and is
 * not to be used.
 */
int attributes_copy(int to, int from);

#endif
