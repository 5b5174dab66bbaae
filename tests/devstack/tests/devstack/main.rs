//! The stack as processes: with fakes for every way to fail, and with the real
//! API server for what only that can show.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod own_server;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod up_and_down;
#[cfg(test)]
mod with_server;
