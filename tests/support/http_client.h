#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * A connection of an HTTP client, with a view of the bytes: it sends what a test writes, and reads
 * responses strictly. The test fails if a response is not valid HTTP/1.1, or if something does not
 * happen within WAIT_BOUND_MS.
 *
 *   struct http_client *client = http_client_connect("127.0.0.1:28417");
 *   http_client_send(client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
 *   const struct http_response *response = http_client_response(client);
 *   … response->status, http_response_field(response, "Allow"), response->body …
 *   http_client_expect_closed(client);
 *   http_client_free(client);
 *
 * An ordinary request in one line, and a stream line by line:
 *
 *   http_client_send_request(client, "PUT", "/steps/1", "Accept: application/x-ndjson\r\n", step);
 *   assert_int_equal(http_client_begin_response(client)->status, 200);
 *   while ((line = http_client_line(client)) != NULL) …
 *   assert_true(http_client_is_whole(client));
 */
struct http_client;

/* Valid until the next response of the same connection. */
struct http_response {
  int status;         /* 0: the connection ended before the first byte of a response */
  const char *head;   /* status line and fields, each line with its CRLF, NUL-terminated */
  const char *body;   /* decoded, NUL-terminated; complete after http_client_response */
  size_t body_length; /* as far as it was read */
  bool is_chunked;
};

/* ADDRESS as for --http: HOST:PORT with an address of IPv4, [ADDRESS]:PORT, or unix:PATH. A refused
   connection fails the test with the first function, and is NULL with the second one. */
struct http_client *http_client_connect(const char *address);
struct http_client *http_client_try(const char *address);

/* Closes the connection; NULL is fine. */
void http_client_free(struct http_client *self);

/* For tests that set socket options or count the bytes that wait. */
int http_client_fd(const struct http_client *self);

/* Sends the bytes unchanged, and blocks until the kernel has them. If the agent has closed the
   connection, `send` fails the test, and `offer` returns false. */
void http_client_send(struct http_client *self, const char *text);
void http_client_send_bytes(struct http_client *self, const char *bytes, size_t length);
bool http_client_offer(struct http_client *self, const char *bytes, size_t length);

/* Sends each byte when the agent has read the one before it; over TCP it may still read several at
   once. Returns false if the agent has closed the connection. */
bool http_client_offer_bytewise(struct http_client *self, const char *bytes, size_t length);

/* Sends a valid request with `Host: localhost`, with these field lines (each with CRLF; NULL: none)
   and, unless the body is NULL, with Content-Length and the body. */
void http_client_send_request(struct http_client *self, const char *method, const char *target,
                              const char *fields, const char *body);

/* Closes the sending side. */
void http_client_end_input(struct http_client *self);

/* Resets the connection: bytes that are on their way are lost. The client can only be freed. */
void http_client_reset(struct http_client *self);

/* Reads one response to its end. A body that is cut fails the test. A 100 is a response by itself.
   The second function is for a request with HEAD, whose response has no body. */
const struct http_response *http_client_response(struct http_client *self);
const struct http_response *http_client_response_to_head(struct http_client *self);

/* send_request and response. */
const struct http_response *http_client_request(struct http_client *self, const char *method,
                                                const char *target, const char *fields,
                                                const char *body);

/* Reads a response up to the end of its header. The body follows by http_client_line, or by
   http_client_read_body, which waits for more of it; it returns false at the end of the body, and
   if the connection ends before. */
const struct http_response *http_client_begin_response(struct http_client *self);
bool http_client_read_body(struct http_client *self);

/* Returns the next line of the body without its newline, to be used until the next call; NULL if
   the body or the connection has ended. */
const char *http_client_line(struct http_client *self);

/* Whether the body was received to its end: to its length or its last chunk. */
bool http_client_is_whole(const struct http_client *self);

/* Whether bytes of a response can be read now. */
bool http_client_has_input(const struct http_client *self);

/* Waits for the end of the connection; a reset is an end, too. Fails the test if another byte
   arrives. */
void http_client_expect_closed(struct http_client *self);

/* The value of the field without whitespace around it, to be used until 8 more were requested;
   NULL: there is none. A field that appears twice fails the test. */
const char *http_response_field(const struct http_response *self, const char *name);
