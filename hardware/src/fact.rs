//! One thing that may be known of a machine.

use std::borrow::Cow;

/// Why something is unknown, as half a sentence a person can read.
pub type Why = Cow<'static, str>;

/// What is known of one property. Nothing is ever guessed: a value that a tool did not print is
/// not zero, and a battery that a card cannot have is not missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    Known(T),
    /// It has a value, which could not be learned.
    Unknown(Why),
    /// It has no value: the spares of a stripe, the rotation of flash.
    NotApplicable,
}

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::NotApplicable => None,
        }
    }

    /// Takes the value where there is one, and stays as it is otherwise.
    pub fn learn(&mut self, value: Option<T>) {
        if let Some(value) = value {
            *self = Self::Known(value);
        }
    }
}

impl<T: Clone> Fact<T> {
    /// Takes what another one knows: a value, or that there is none where nothing was known.
    pub(crate) fn learn_from(&mut self, other: &Self) {
        match (&*self, other) {
            (_, Self::Known(_)) | (Self::Unknown(_), Self::NotApplicable) => *self = other.clone(),
            _ => {}
        }
    }
}

impl<T> From<T> for Fact<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}
