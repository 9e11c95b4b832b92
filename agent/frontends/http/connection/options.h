#pragma once

#include <stdbool.h>

#include "agent/frontends/http/connection/access.h"
#include "agent/frontends/http/connection/address.h"
#include "base/error.h"

/*
 * The settings of the HTTP server, which all modes over HTTP share. agent/options.c reads the flags
 * with these functions, and main.c binds the address. The hard part is the key, which no error
 * repeats.
 */
#define HTTP_KEY_VARIABLE "SANDBOX_HTTP_KEY"

struct http_listener;

struct http_options {
  struct http_address address;
  struct http_access access;
  char *key; /* owned, as are the other texts; NULL: none. In other modes as it was given */
  const char *key_file;
  const char *key_source;               /* for people; NULL: there is no key */
  const char *names;                    /* of --http-open; NULL: none */
  const char *path;                     /* of the route for calls; NULL: that of the mode */
  bool is_open;                         /* others may connect without a key */
  const char *job_id;                   /* borrowed; NULL: none */
  const struct http_listener *listener; /* bound, and does not listen yet; borrowed */
};

/* Stores the value of --http-open, or of its variable: 1, 0, or host names. Returns 0, or -1 with
   what is wrong. */
int http_options_parse_open(struct http_options *self, const char *value, struct error *error);

/* Stores the value of --http-path. Returns 0, or -1 with what is wrong. */
int http_options_parse_path(struct http_options *self, const char *value, struct error *error);

/* Copies the key of the environment. NULL: none. */
void http_options_set_key(struct http_options *self, const char *key);

/* Reads the key's file and completes `access`. To be called after all settings were stored. Returns
   0; or -1 with an error, whose code is 0 for wrong usage, and else the errno of the file. */
int http_options_complete(struct http_options *self, struct error *error);

/* Overwrites the key before it frees it. */
void http_options_release(struct http_options *self);
