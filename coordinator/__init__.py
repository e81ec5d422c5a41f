"""The untrusted rendezvous and relay. Imports protocol, never party."""
