#pragma once

/*
 * The reason why there is no connection: a text for people, and a code for programs. The connection
 * makes it, the log shows the text, and `sandbox doctor` chooses its advice by the code. The code
 * is an errno, one of these, or 0. It is also the code of the struct error that
 * redis_connection_error and failed() give.
 */
enum {
  CONNECTION_ERROR_UNRESOLVED = 4096, /* the host's name has no address; beyond every errno */
  CONNECTION_ERROR_NO_ANSWER,         /* the server does not answer in time */
  CONNECTION_ERROR_CLOSED,            /* by the server, before its first answer */
  CONNECTION_ERROR_NOT_REDIS,         /* the server speaks another protocol */
  CONNECTION_ERROR_REPLICA,
  CONNECTION_ERROR_NO_MASTER, /* the sentinels do not know the master's name */
  /* Error replies to the login: */
  CONNECTION_ERROR_WRONG_PASSWORD,
  CONNECTION_ERROR_NO_PASSWORD,       /* the server requires one */
  CONNECTION_ERROR_NEEDLESS_PASSWORD, /* the user has none */
  CONNECTION_ERROR_NO_RIGHT,
  CONNECTION_ERROR_LOADING,
  /* TLS: */
  CONNECTION_ERROR_SPEAKS_TLS,
  CONNECTION_ERROR_SPEAKS_NO_TLS, /* or does not answer the TLS handshake */
  /* The server's certificate: */
  CONNECTION_ERROR_UNTRUSTED,
  CONNECTION_ERROR_OTHER_NAME,
  CONNECTION_ERROR_EXPIRED,
  CONNECTION_ERROR_NOT_YET_VALID,
  /* TLS alerts of the server: */
  CONNECTION_ERROR_UNKNOWN_NAME, /* the server does not know the name that it was asked for */
  CONNECTION_ERROR_WANTS_CERTIFICATE,
  CONNECTION_ERROR_CERTIFICATE_REFUSED
};

struct connection_error {
  const char *text; /* valid during the callback that has it */
  int code;
};
