#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request as request_reader.h has read it, and questions about its header fields. All texts
   lie within the header that the reader owns, and end with a NUL. */

/* The longest request line and header fields together, in bytes. */
#define HTTP_HEADER_MAX ((size_t)16 * 1024)
#define HTTP_FIELDS_MAX 64

enum http_method {
  HTTP_GET,
  HTTP_HEAD,
  HTTP_POST,
  HTTP_PUT,
  HTTP_DELETE,
  HTTP_OTHER /* no route has it */
};

struct http_field {
  const char *name, *value; /* the value without whitespace around it */
};

enum http_body_framing { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_request {
  enum http_method method;
  const char *method_name;
  const char *path; /* decoded; begins with "/" */
  size_t path_length;
  const char *query; /* behind the "?", not decoded; "" if there is none */
  bool is_http_1_0;
  bool closes; /* the client wants the connection to be closed after the response */
  bool expects_continue;
  enum http_body_framing framing;
  uint64_t content_length; /* with HTTP_BODY_LENGTH */
  struct http_field fields[HTTP_FIELDS_MAX];
  size_t field_count;
};

/* Returns the value of the first field with this name, in any case; NULL if there is none. */
const char *http_request_field(const struct http_request *self, const char *name);

/* Overwrites the value of the first field with this name, which is "" from now on. */
void http_request_erase_field(struct http_request *self, const char *name);

/* Whether a field that is a list of values separated by commas has this one, in any case.
   Parameters (";q=1") are ignored. The field may occur several times. */
bool http_request_lists(const struct http_request *self, const char *name, const char *value);

/* Whether the client prefers this media type: it is listed in Accept by its full name. */
static inline bool http_request_accepts(const struct http_request *self, const char *media_type) {
  return http_request_lists(self, "Accept", media_type);
}

/* Whether Content-Type is this media type, with or without parameters. */
bool http_request_has_type(const struct http_request *self, const char *media_type);

enum http_parameter { HTTP_PARAMETER_ABSENT, HTTP_PARAMETER_NUMBER, HTTP_PARAMETER_INVALID };

/* Reads a whole number of decimal digits. A number above UINT64_MAX counts as that. */
enum http_parameter http_number_read(const char *text, size_t length, uint64_t *number);

/* Reads a query parameter that is a whole number. If it occurs several times, the first one
   counts. */
enum http_parameter http_request_parameter(const struct http_request *self, const char *name,
                                           uint64_t *number);
