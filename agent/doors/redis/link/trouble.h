#ifndef AGENT_DOORS_REDIS_LINK_TROUBLE_H
#define AGENT_DOORS_REDIS_LINK_TROUBLE_H

/*
 * Why there is no connection: a text for people, which lives as long as the callback that has it, and a
 * code for who decides by it: the errno, where the system has refused something, or one of these. 0: there
 * is none. client_trouble and failed() have the code in their struct error.
 */
enum {
  TROUBLE_UNRESOLVED = 4096, /* beyond every errno: the host's name has no address */
  TROUBLE_NO_ANSWER,         /* connected, and nothing came in time */
  TROUBLE_CLOSED,            /* by the server, before its first answer */
  TROUBLE_NOT_REDIS,         /* what answers speaks another protocol */
  TROUBLE_REPLICA,
  TROUBLE_NO_MASTER, /* the sentinels do not know the url's */
  /* error replies of the login */
  TROUBLE_WRONG_PASSWORD,
  TROUBLE_NO_PASSWORD,       /* the server wants one */
  TROUBLE_NEEDLESS_PASSWORD, /* its user has none */
  TROUBLE_NO_RIGHT,
  TROUBLE_LOADING,
  /* TLS */
  TROUBLE_SPEAKS_TLS,
  TROUBLE_SPEAKS_NO_TLS, /* or does not answer to its handshake */
  TROUBLE_UNTRUSTED,     /* the server's certificate: this and the next three */
  TROUBLE_OTHER_NAME,
  TROUBLE_EXPIRED,
  TROUBLE_NOT_YET_VALID,
  TROUBLE_UNKNOWN_NAME, /* to the server */
  TROUBLE_WANTS_CERTIFICATE,
  TROUBLE_CERTIFICATE_REFUSED
};

struct trouble {
  const char *text;
  int code;
};

#endif
