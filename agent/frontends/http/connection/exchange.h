#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/http/connection/request.h"
#include "base/buffer.h"

/*
 * One request and its response, as a frontend sees them. An exchange exists from the call of a
 * route's serve() (server.h) until the frontend's closed(). The frontend answers each one once,
 * inside serve() or later, with http_respond… or with a stream. These functions only record what to
 * send; nothing is written, and closed() is not called, before they return.
 */
struct http_exchange;

const struct http_request *http_exchange_request(const struct http_exchange *self);

/* Returns the segment of the path in place of "{}" of the route's pattern; "" if it has none. */
const char *http_exchange_segment(const struct http_exchange *self);

/* Returns the body, which the frontend may move elsewhere. */
struct buffer *http_exchange_body(struct http_exchange *self);

void http_exchange_set_user_data(struct http_exchange *self, void *user_data);
void *http_exchange_user_data(const struct http_exchange *self);

/* Counts the exchange among the long ones until it is over. If there are HTTP_LONG_MAX, the oldest
   one whose client may have left is aborted. Returns false after it has answered 503 because there
   is none. */
bool http_exchange_admit_long(struct http_exchange *self);
#define HTTP_LONG_MAX 48

/* To be called before a response that may be long and is not a stream. Returns false after it has
   answered 503 because HTTP_ALL_UNSENT_MAX bytes of responses are not sent yet. */
bool http_exchange_admit_output(struct http_exchange *self);
#define HTTP_ALL_UNSENT_MAX ((size_t)16 * 1024 * 1024)

/* Closes the connection without an end of the response, so that the client sees that it was
   interrupted. The exchange is no longer a long one. */
void http_exchange_abort(struct http_exchange *self);

/* Sends a whole response. `type`: its Content-Type; NULL: it has no body. `fields`: further header
   lines, each with CRLF; NULL: none. The body is moved, and is empty afterwards. */
void http_respond(struct http_exchange *self, int status, const char *type, const char *fields,
                  struct buffer *body);

/* Sends {"error":"<word>","message":"<sentence>"}. The word must be static. */
void http_respond_error(struct http_exchange *self, int status, const char *word,
                        const char *message);

/* The same with `fields`, as of http_respond. */
void http_respond_error_with(struct http_exchange *self, int status, const char *word,
                             const char *message, const char *fields);
#define HTTP_RETRY_AFTER "Retry-After: 1\r\n"

/* --- streams ---------------------------------------------------------------------------------- */

/* The most bytes of a response that are held unsent, unless http_respond was passed more. */
#define HTTP_UNSENT_MAX ((size_t)256 * 1024)

/* `length` of a stream that ends with http_stream_end. */
#define HTTP_STREAM_OPEN UINT64_MAX

/* Begins a response that is written in pieces, of `length` bytes in total or HTTP_STREAM_OPEN. The
   frontend's writable() follows when there is capacity. */
void http_stream_begin(struct http_exchange *self, int status, const char *type, const char *fields,
                       uint64_t length);

/* Returns how many bytes may be written now. */
size_t http_stream_capacity(const struct http_exchange *self);
void http_stream_write(struct http_exchange *self, const char *bytes, size_t length);

/* Makes writable() follow in this iteration of the loop, if there is capacity. */
void http_stream_wake(struct http_exchange *self);

/* The response is complete. */
void http_stream_end(struct http_exchange *self);
