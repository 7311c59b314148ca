"""What needs a package that is nowhere."""

import no_such_package

no_such_package.train()
