//! A site in use: jobs of every policy, people who interfere and programs that read, and whether every
//! instant of it all is accounted for.

pub(crate) mod load;
pub(crate) mod people;
pub(crate) mod tiling;
