#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_CONNECTION_ERROR_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_CONNECTION_ERROR_H

/*
 * Why there is no connection: a text for people, which lives as long as the callback that has it,
 * and a code for who decides by it: the errno, where the system has refused something, or one of
 * these. 0: there is none. redis_connection_error and failed() have the code in their struct error.
 */
enum {
  CONNECTION_ERROR_UNRESOLVED = 4096, /* beyond every errno: the host's name has no address */
  CONNECTION_ERROR_NO_ANSWER,         /* connected, and nothing came in time */
  CONNECTION_ERROR_CLOSED,            /* by the server, before its first answer */
  CONNECTION_ERROR_NOT_REDIS,         /* what answers speaks another protocol */
  CONNECTION_ERROR_REPLICA,
  CONNECTION_ERROR_NO_MASTER, /* the sentinels do not know the url's */
  /* error replies of the login */
  CONNECTION_ERROR_WRONG_PASSWORD,
  CONNECTION_ERROR_NO_PASSWORD,       /* the server wants one */
  CONNECTION_ERROR_NEEDLESS_PASSWORD, /* its user has none */
  CONNECTION_ERROR_NO_RIGHT,
  CONNECTION_ERROR_LOADING,
  /* TLS */
  CONNECTION_ERROR_SPEAKS_TLS,
  CONNECTION_ERROR_SPEAKS_NO_TLS, /* or does not answer to its handshake */
  CONNECTION_ERROR_UNTRUSTED,     /* the server's certificate: this and the next three */
  CONNECTION_ERROR_OTHER_NAME,
  CONNECTION_ERROR_EXPIRED,
  CONNECTION_ERROR_NOT_YET_VALID,
  CONNECTION_ERROR_UNKNOWN_NAME, /* to the server */
  CONNECTION_ERROR_WANTS_CERTIFICATE,
  CONNECTION_ERROR_CERTIFICATE_REFUSED
};

struct connection_error {
  const char *text;
  int code;
};

#endif
