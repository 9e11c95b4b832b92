#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/*
 * Parses one response of HTTP/1.1 as its bytes arrive, in bounded memory: the body is not kept.
 * Pure. A response that is all zeros has not begun.
 */
struct http_response {
  enum response_part {
    RESPONSE_HEAD,
    RESPONSE_BODY, /* of known length */
    RESPONSE_REST, /* a body until the connection is closed */
    RESPONSE_CHUNK_SIZE,
    RESPONSE_CHUNK,
    RESPONSE_CHUNK_END,
    RESPONSE_TRAILER,
    RESPONSE_WHOLE,
    RESPONSE_BROKEN /* this is not HTTP */
  } part;
  int status;        /* 0: unknown yet */
  bool closes;       /* the server closes the connection */
  uint64_t left;     /* bytes of the body or the chunk */
  char instance[40]; /* Sandbox-Instance; "": the server is no agent */
  bool is_chunked, has_length;
  struct buffer line; /* the beginning of one */
  size_t head_size;
};

/* Parses a part of the bytes, until the response is whole or broken. Returns the number of bytes
   that were parsed. Sets the bytes among them that belong to the body. */
size_t http_response_parse(struct http_response *self, const char *bytes, size_t length,
                           const char **body, size_t *body_length);

/* Frees the memory, and begins again. */
void http_response_reset(struct http_response *self);
