//! Both ends over real loopback.
