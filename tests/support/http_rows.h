#pragma once

#include <stddef.h>

/*
 * Requests for the reader of --http, as bytes: each malformed form that the agent rejects, and each
 * form that it accepts. The integration tests send them to an agent, and the fuzzer starts from
 * them.
 *
 * Each rejected row is one header, with a body if it announces one, that a lenient server would
 * serve. The caller appends HTTP_ROW_FOLLOWER: a request of its own, which must never be served.
 * Rows with a body carry HTTP_ROW_STEP, so that a step exists if the agent accepts the row.
 */
enum http_part {
  HTTP_LINES,
  HTTP_REQUEST_LINE,
  HTTP_FIELDS,
  HTTP_HOST,
  HTTP_CONTENT_LENGTH,
  HTTP_TRANSFER_ENCODING,
  HTTP_CHUNKS,
  HTTP_PATH,
  HTTP_BODY,
  HTTP_PARTS
};

struct http_row {
  enum http_part part;
  int status; /* of the response */
  const char *name;
  const char *bytes; /* may contain NUL */
  size_t length;
};

/* A step that creates a file, and the request that would run it as step `x`. */
#define HTTP_ROW_FILE "was-executed"
#define HTTP_ROW_STEP                                                                              \
  "{\"command\":\"sh\",\"args\":[\"-c\",\": >$HTTP_DIRECTORY/" HTTP_ROW_FILE "\"]}"
#define HTTP_ROW_STEP_LENGTH "64"
#define HTTP_ROW_STEP_HEX "40"
#define HTTP_ROW_FOLLOWER                                                                          \
  "PUT /steps/x HTTP/1.1\r\nHost: a\r\nContent-Length: " HTTP_ROW_STEP_LENGTH                      \
  "\r\n\r\n" HTTP_ROW_STEP

/* The connection is closed after the response to a rejected row, and stays open after that to an
   accepted row. */
extern const struct http_row http_rejected_rows[];
extern const size_t http_rejected_row_count;
extern const struct http_row http_accepted_rows[];
extern const size_t http_accepted_row_count;
