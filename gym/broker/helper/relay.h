// Frames of a relay: type, connection, length (little-endian), then so many bytes.
// To the broker: L which ports are open, O a connection was opened (its port), D data, E its end, R it is gone,
// W so many bytes were taken, U a datagram (port, then the data). From the broker: D, E, R, W, U.
#ifndef GYM_RELAY_H
#define GYM_RELAY_H

#define RELAY_HEAD 9
#define RELAY_CONNECTIONS 64  // at once; more wait in the backlog
#define RELAY_WINDOW 131072   // bytes of one connection that may be under way each way

int relay(int argc, char **argv);
#endif
