#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/http/connection/request.h"
#include "base/buffer.h"

/*
 * Reads one request of HTTP/1.1 or HTTP/1.0 (RFC 9112) from bytes that arrive in any pieces. The
 * connection calls it; it is pure. The hard part is that a proxy in front of the agent and the
 * agent must never disagree about where a request ends: it accepts only the forms of docs/http.md
 * and rejects everything else, whatever the specification tolerates.
 *
 *   READING_HEADER --empty line--> HEADER_READ --request_reader_read_body--> READING_BODY
 *         |                                                                       |
 *         `------error------> REJECTED <-------------------error-----------------+--> DONE
 *
 * After REJECTED, no later byte of the connection may be treated as a request.
 */
enum request_reader_state {
  REQUEST_READING_HEADER,
  REQUEST_HEADER_READ,
  REQUEST_READING_BODY,
  REQUEST_DONE,
  REQUEST_REJECTED
};

/* An error response. All texts are static. */
struct http_rejection {
  int status;
  const char *word, *message;
};

/* What is expected next of a chunked body. */
enum request_chunk_state {
  CHUNK_SIZE,
  CHUNK_SIZE_LF,
  CHUNK_DATA,
  CHUNK_DATA_CR,
  CHUNK_DATA_LF,
  CHUNK_LAST_CR,
  CHUNK_LAST_LF
};

struct request_reader {
  enum request_reader_state state;
  struct http_rejection rejection; /* with REQUEST_REJECTED */
  struct http_request request;     /* complete from REQUEST_HEADER_READ on */
  char *header;                    /* HTTP_HEADER_MAX bytes, NULL before the first byte; owned */
  size_t length;                   /* of what was read of the header */
  size_t line;                     /* where its current line begins */
  bool has_request_line;
  bool skipped_empty_line; /* before the request line */
  struct buffer body;
  uint64_t left; /* of the body or of the current chunk */
  enum request_chunk_state chunk;
  unsigned digits; /* of the current chunk's size */
};

/* A reader of zeros expects a request. Makes it one again, for the next request. The header is
   overwritten, because it may have a key. */
void request_reader_reset(struct request_reader *self);

/* Whether any byte of the current request was read. */
static inline bool request_reader_has_begun(const struct request_reader *self) {
  return self->header != NULL;
}

/* Reads the header or the body, as far as its state allows, and returns the number of bytes that it
   has used: fewer than `length` only if the state is not a READING one anymore. */
size_t request_reader_feed(struct request_reader *self, const char *bytes, size_t length);

/* Accepts the body after REQUEST_HEADER_READ. Without one the request is DONE. */
void request_reader_read_body(struct request_reader *self);
