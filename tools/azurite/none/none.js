// Stands for packages that azurite requires and does not use here.
module.exports = {};
