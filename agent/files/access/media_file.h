#ifndef AGENT_FILES_ACCESS_MEDIA_FILE_H
#define AGENT_FILES_ACCESS_MEDIA_FILE_H

#include "agent/files/access/line_range.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Reads a file for a reader who can show text and images. A line in front says which of them it is,
 * whatever the file's name:
 *
 *   text/plain   its lines follow, as of regular_file_cut
 *   image/png    its bytes as base64; so with image/jpeg, image/gif and image/webp
 *
 * An image is what begins as one and is not UTF-8.
 */

/* The largest image, in bytes; wire/PROTOCOL.md, readFile. */
#define MEDIA_FILE_IMAGE_MAX 5242880

/* Errors are those of regular_file_cut, and after one `to` may have a part. */
int media_file_cut(const char *path, const struct line_range *range, struct buffer *to,
                   struct error *error);

#endif
